// Tests of a Go client (franz-go) against an emulated cluster. Run: go test ./...
//
// KEMU names the program, such as ../../../.venv/bin/kemu; the default is kemu on the PATH.
package serve

import (
	"bufio"
	"context"
	"fmt"
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

// cluster starts an emulated cluster and returns its bootstrap servers.
func cluster(t *testing.T, options ...string) string {
	t.Helper()
	program := os.Getenv("KEMU")
	if program == "" {
		program = "kemu"
	}
	served := exec.Command(program, append([]string{"serve", "../orders.toml", "--for", "300s"}, options...)...)
	served.Stderr = os.Stderr
	out, err := served.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := served.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = served.Process.Signal(os.Interrupt)
		_ = served.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, servers, found := strings.Cut(lines.Text(), "READY bootstrap.servers="); found {
			go func() {
				for lines.Scan() {
				}
			}()
			return servers
		}
	}
	t.Fatal("kemu serve has ended before it was ready")
	return ""
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

func member(t *testing.T, servers string) *kgo.Client {
	return client(t, servers,
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(500*time.Millisecond))
}

func produce(t *testing.T, ctx context.Context, servers string, from, to int) {
	t.Helper()
	producer := client(t, servers, kgo.DefaultProduceTopic(topic))
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
	servers := cluster(t)
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
	servers := cluster(t)
	ctx := limit(t)
	first, second := member(t, servers), member(t, servers)
	produce(t, ctx, servers, 0, records)
	read(t, ctx, records, first, second)
	if err := second.CommitUncommittedOffsets(ctx); err != nil {
		t.Fatal(err)
	}
	second.Close()

	produce(t, ctx, servers, records, records+20)

	read(t, ctx, 20, first)
}

func TestAMemberSurvivesTheLossOfItsCoordinator(t *testing.T) {
	servers := cluster(t, "--do", "kill-coordinator group=payments at=5s for=6s")
	ctx := limit(t)
	only := member(t, servers)
	produce(t, ctx, servers, 0, records)
	read(t, ctx, records, only)

	for until := time.Now().Add(15 * time.Second); time.Now().Before(until); {
		turn, done := context.WithTimeout(ctx, 500*time.Millisecond)
		only.PollFetches(turn)
		done()
	}
	if err := only.CommitUncommittedOffsets(ctx); err != nil {
		t.Fatalf("the commit after the failover: %v", err)
	}
	produce(t, ctx, servers, records, records+20)

	read(t, ctx, 20, only)
}
