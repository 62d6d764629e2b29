// Tests of a Go client (franz-go) against an emulated cluster. Run: go test ./...
//
// KEMU names the program, such as ../../../.venv/bin/kemu; the default is kemu on the PATH.
package serve

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	topic   = "orders"
	group   = "payments"
	records = 100
)

// served is an emulated cluster: bootstrap servers of the client "app", and the address for orders.
type served struct {
	servers string
	control string
}

// cluster starts an emulated cluster.
func cluster(t *testing.T) served {
	t.Helper()
	program := os.Getenv("KEMU")
	if program == "" {
		program = "kemu"
	}
	process := exec.Command(program, "serve", "../orders.toml", "--client", "app", "--control", "0", "--for", "300s")
	process.Stderr = os.Stderr
	out, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 1)
	var found served
	lines := bufio.NewScanner(out)
	for ready := false; !ready; {
		if !lines.Scan() {
			t.Fatal("kemu serve has ended before it was ready")
		}
		line := lines.Text()
		if servers, is := strings.CutPrefix(line, "app bootstrap.servers="); is {
			found.servers = servers
		}
		if control, is := strings.CutPrefix(line, "control "); is {
			found.control = control
		}
		ready = strings.HasPrefix(line, "READY ")
	}
	go func() {
		rest := ""
		for lines.Scan() {
			rest += lines.Text() + "\n"
		}
		said <- rest
	}()
	t.Cleanup(func() {
		_ = process.Process.Signal(os.Interrupt)
		if rest := <-said; !strings.Contains(rest, "verdict: holds") {
			t.Errorf("a rule of Kafka is broken:\n%s", rest)
		}
		_ = process.Wait()
	})
	return found
}

// ask sends an order to the cluster, and fails if the cluster refuses it or a wait is in vain.
func (cluster served) ask(t *testing.T, verb, order string) {
	t.Helper()
	answer, err := http.Post(cluster.control+"/"+verb, "text/plain", strings.NewReader(order))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if said, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s", verb, order, said)
	}
}

func client(t *testing.T, servers string, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	made, err := kgo.NewClient(append(options, kgo.SeedBrokers(strings.Split(servers, ",")...))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.Close)
	return made
}

func member(t *testing.T, servers string, options ...kgo.Opt) *kgo.Client {
	return client(t, servers, append([]kgo.Opt{
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(6 * time.Second), kgo.HeartbeatInterval(500 * time.Millisecond),
	}, options...)...)
}

func produce(t *testing.T, ctx context.Context, servers string, from, to int, options ...kgo.Opt) {
	t.Helper()
	producer := client(t, servers, append(options, kgo.DefaultProduceTopic(topic))...)
	var sent []*kgo.Record
	for number := from; number < to; number++ {
		sent = append(sent, kgo.StringRecord(fmt.Sprintf("order-%d", number)))
	}
	if err := producer.ProduceSync(ctx, sent...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// read polls the clients in turns until they have read this number of different values.
func read(t *testing.T, ctx context.Context, count int, clients ...*kgo.Client) map[string]int {
	t.Helper()
	found := map[string]int{}
	for len(found) < count {
		if ctx.Err() != nil {
			t.Fatalf("read %d of %d values", len(found), count)
		}
		for _, each := range clients {
			turn, done := context.WithTimeout(ctx, 300*time.Millisecond)
			each.PollFetches(turn).EachRecord(func(record *kgo.Record) { found[string(record.Value)]++ })
			done()
		}
	}
	return found
}

func limit(t *testing.T) context.Context {
	ctx, done := context.WithTimeout(context.Background(), 120*time.Second)
	t.Cleanup(done)
	return ctx
}

func TestRecordsAreReadBackOnce(t *testing.T) {
	servers := cluster(t).servers
	ctx := limit(t)
	produce(t, ctx, servers, 0, records)

	found := read(t, ctx, records, member(t, servers))

	for value, times := range found {
		if times != 1 {
			t.Errorf("%s was read %d times", value, times)
		}
	}
}

func TestTwoMembersShareTheTopicAndOneLeaves(t *testing.T) {
	cluster := cluster(t)
	ctx := limit(t)
	first, second := member(t, cluster.servers), member(t, cluster.servers)
	cluster.ask(t, "wait", "group payments Stable members=2 within 60s")
	produce(t, ctx, cluster.servers, 0, records)
	read(t, ctx, records, first, second)
	if err := second.CommitUncommittedOffsets(ctx); err != nil {
		t.Fatal(err)
	}
	second.Close()
	cluster.ask(t, "wait", "group payments Stable members=1 within 60s")

	produce(t, ctx, cluster.servers, records, records+20)

	read(t, ctx, 20, first)
}

func TestAStaticMemberReturnsWithoutARebalance(t *testing.T) {
	cluster := cluster(t)
	ctx := limit(t)
	instance := []kgo.Opt{kgo.InstanceID("till"), kgo.SessionTimeout(30 * time.Second)}
	before := member(t, cluster.servers, instance...)
	produce(t, ctx, cluster.servers, 0, records)
	read(t, ctx, records, before)
	if err := before.CommitUncommittedOffsets(ctx); err != nil {
		t.Fatal(err)
	}
	_, generation := before.GroupMetadata()
	before.Close()

	after := member(t, cluster.servers, instance...)
	produce(t, ctx, cluster.servers, records, records+20)
	if found := read(t, ctx, 20, after); len(found) != 20 {
		t.Errorf("read %d values instead of 20", len(found))
	}
	if _, now := after.GroupMetadata(); now != generation {
		t.Errorf("generation %d instead of %d", now, generation)
	}
}

func TestAMemberWhoseRecordsWereDeletedReadsTheRest(t *testing.T) {
	cluster := cluster(t)
	ctx := limit(t)
	first := kgo.RecordPartitioner(kgo.ManualPartitioner()) // partition 0
	before := member(t, cluster.servers)
	produce(t, ctx, cluster.servers, 0, records, first)
	read(t, ctx, records, before)
	if err := before.CommitUncommittedOffsets(ctx); err != nil {
		t.Fatal(err)
	}
	before.Close()
	produce(t, ctx, cluster.servers, records, records+20, first)
	cluster.ask(t, "do", "delete-records topic=orders partition=0 before=-1")
	cluster.ask(t, "wait", "partition orders-0 start=120 within 60s")
	produce(t, ctx, cluster.servers, records+20, records+40, first)

	after := member(t, cluster.servers)
	found := read(t, ctx, 20, after)
	for number := records + 20; number < records+40; number++ {
		if value := fmt.Sprintf("order-%d", number); found[value] != 1 {
			t.Errorf("%s was read %d times", value, found[value])
		}
	}
	if err := after.CommitUncommittedOffsets(ctx); err != nil {
		t.Fatal(err)
	}
	cluster.ask(t, "wait", "lag payments 0 within 60s")
}

func TestAMemberSurvivesAFault(t *testing.T) {
	for _, fault := range []string{
		"kill-coordinator group=payments for=6s",
		"crash host=b1 mode=process for=5s",
		"crash host=b2 mode=power for=5s",
		`pause host="coordinator of payments" for=4s`,
		"slow sender=x-app add=150ms jitter=50ms for=10s",
		"lossy sender=x-app per_mille=100 for=6s",
		"crash host=x-app mode=process for=3s",
		"error-reply sender=x-app api=Heartbeat error=REBALANCE_IN_PROGRESS",
		"error-reply sender=x-app api=Fetch error=NOT_LEADER_OR_FOLLOWER",
		"error-reply sender=x-app api=OffsetCommit error=NOT_COORDINATOR",
	} {
		t.Run(fault, func(t *testing.T) {
			cluster := cluster(t)
			ctx := limit(t)
			only := member(t, cluster.servers)
			produce(t, ctx, cluster.servers, 0, records)
			read(t, ctx, records, only)
			if err := only.CommitUncommittedOffsets(ctx); err != nil {
				t.Fatal(err)
			}
			cluster.ask(t, "do", fault)

			produce(t, ctx, cluster.servers, records, records+20)
			read(t, ctx, 20, only)
			if err := only.CommitUncommittedOffsets(ctx); err != nil {
				t.Fatalf("the commit after the fault: %v", err)
			}

			cluster.ask(t, "wait", "lag payments 0 within 60s")
		})
	}
}
