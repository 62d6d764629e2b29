// Command kfake is the peer and the load generator of "python -m lab.bench served".
//
//	kfake serve              a kfake cluster of three brokers; prints "READY host:port,..."; ends with standard input
//	kfake load ADDRESS N S   sends one request after the other on N connections for S seconds; prints
//	                         "ROUNDTRIPS SECONDS"
package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
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
	default:
		fmt.Fprintln(os.Stderr, "usage: kfake serve | kfake load ADDRESS CONNECTIONS SECONDS")
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
