// Command kfake is the peer of "python -m lab.bench served" and "python -m lab.bench join", and their load generator.
//
//	kfake serve              a kfake cluster of three brokers; prints "READY host:port,..."; ends with standard input
//	kfake load ADDRESS N S   sends one request after the other on N connections for S seconds; prints
//	                         "ROUNDTRIPS SECONDS"
//	kfake join N P S         N members of a group with P partitions, all in this process. From the start of one more
//	                         member: prints "CPU_MS WALL_MS CPU_MS", until it owns partitions and each partition has an
//	                         owner, and the CPU time of S seconds
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	switch {
	case len(os.Args) == 2 && os.Args[1] == "serve":
		serve()
	case len(os.Args) == 5 && os.Args[1] == "load":
		connections, err := strconv.Atoi(os.Args[3])
		check(err)
		seconds, err := strconv.ParseFloat(os.Args[4], 64)
		check(err)
		load(os.Args[2], connections, time.Duration(seconds*float64(time.Second)))
	case len(os.Args) == 5 && os.Args[1] == "join":
		members, err := strconv.Atoi(os.Args[2])
		check(err)
		partitions, err := strconv.Atoi(os.Args[3])
		check(err)
		window, err := strconv.ParseFloat(os.Args[4], 64)
		check(err)
		join(members, partitions, time.Duration(window*float64(time.Second)))
	default:
		fmt.Fprintln(os.Stderr, "usage: kfake serve | load ADDRESS CONNECTIONS SECONDS | join MEMBERS PARTITIONS SECONDS")
		os.Exit(2)
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve() {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(4, "orders"))
	check(err)
	defer cluster.Close()
	fmt.Println("READY " + strings.Join(cluster.ListenAddrs(), ","))
	_, err = io.Copy(io.Discard, os.Stdin)
	check(err)
}

// load sends Metadata v5 for the topic "orders".
func load(address string, connections int, length time.Duration) {
	request := metadata()
	counts := make([]int, connections)
	var opened, done sync.WaitGroup
	begin := make(chan struct{})
	var end time.Time
	for i := range connections {
		opened.Add(1)
		done.Add(1)
		go func() {
			defer done.Done()
			connection, err := net.Dial("tcp", address)
			check(err)
			defer connection.Close()
			answer := make([]byte, 1<<16)
			opened.Done()
			<-begin
			for time.Now().Before(end) {
				_, err = connection.Write(request)
				check(err)
				_, err = io.ReadFull(connection, answer[:4])
				check(err)
				_, err = io.ReadFull(connection, answer[:binary.BigEndian.Uint32(answer)])
				check(err)
				counts[i]++
			}
		}()
	}
	opened.Wait()
	began := time.Now()
	end = began.Add(length)
	close(begin)
	done.Wait()
	total := 0
	for _, count := range counts {
		total += count
	}
	fmt.Println(total, time.Since(began).Seconds())
}

func metadata() []byte {
	body := []byte{0, 3, 0, 5, 0, 0, 0, 7, 0, 5, 'b', 'e', 'n', 'c', 'h'}
	body = append(body, 0, 0, 0, 1, 0, 6, 'o', 'r', 'd', 'e', 'r', 's', 0)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// group counts the partitions of each member of a cooperative group.
type group struct {
	mutex   sync.Mutex
	changed *sync.Cond
	owned   map[int]int
	seeds   []string
}

// add starts a member with the intervals of kemu's members.
func (g *group) add(member int) {
	count := func(sign int) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
			g.mutex.Lock()
			defer g.mutex.Unlock()
			g.owned[member] += sign * len(topics["orders"])
			g.changed.Broadcast()
		}
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(g.seeds...), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("orders"),
		kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.HeartbeatInterval(3*time.Second),
		kgo.FetchMaxWait(500*time.Millisecond),
		kgo.OnPartitionsAssigned(count(1)), kgo.OnPartitionsRevoked(count(-1)), kgo.OnPartitionsLost(count(-1)),
	)
	check(err)
	go func() {
		for {
			client.PollFetches(context.Background())
		}
	}()
}

// balanced waits until each of the first members owns a partition and each partition has an owner.
func (g *group) balanced(members, partitions int) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	for {
		sum, idle := 0, false
		for member := range members {
			sum += g.owned[member]
			idle = idle || g.owned[member] == 0
		}
		if sum == partitions && !idle {
			return
		}
		g.changed.Wait()
	}
}

func join(members, partitions int, window time.Duration) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(int32(partitions), "orders"))
	check(err)
	g := &group{owned: map[int]int{}, seeds: cluster.ListenAddrs()}
	g.changed = sync.NewCond(&g.mutex)
	for member := range members {
		g.add(member)
	}
	g.balanced(members, partitions)
	time.Sleep(10 * time.Second)
	g.balanced(members, partitions)
	began, before := time.Now(), cpu()
	g.add(members)
	g.balanced(members+1, partitions)
	used, took := cpu()-before, time.Since(began)
	time.Sleep(window - took)
	fmt.Println(used.Seconds()*1000, took.Seconds()*1000, (cpu()-before).Seconds()*1000)
}

// cpu returns the CPU time of this process.
func cpu() time.Duration {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
