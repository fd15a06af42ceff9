// SPDX-License-Identifier: Apache-2.0

//go:build linux

package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/selection"
)

// Bounds of a connection, whatever a peer sends or leaves out, and of answers at a time.
const (
	requestWithin = 10 * time.Second
	answerIn      = 30 * time.Second
	idleMost      = 2 * time.Minute // Prometheus keeps a connection from scrape to scrape
	headMost      = 16 << 10
	answersMost   = 32
	endWithinStop = 5 * time.Second // for answers under way, after SIGTERM
)

// Serve answers scrapers until SIGTERM.
func Serve(f *selection.Filter, where string, io cli.Stdio) int {
	listener, err := openListener(where)
	if err != nil {
		return io.Cannot("listen", err)
	}
	server := metricsServer(sourceOf(f))
	terminated, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-terminated.Done()
		ctx, cancel := context.WithTimeout(context.Background(), endWithinStop)
		defer cancel()
		_ = server.Shutdown(ctx) // a peer that does not read its answer loses it
	}()
	fmt.Fprintf(io.Out, "listening on http://%s/metrics\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return io.Cannot("serve metrics", err)
	}
	<-ended
	return cli.ExitOK
}

// metricsServer answers in the format that the request accepts.
func metricsServer(of source) *http.Server {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry(of), promhttp.HandlerOpts{
		EnableOpenMetrics: true, MaxRequestsInFlight: answersMost, ErrorHandling: promhttp.HTTPErrorOnError,
	}))
	return &http.Server{
		Handler: mux, MaxHeaderBytes: headMost, IdleTimeout: idleMost,
		ReadHeaderTimeout: requestWithin, ReadTimeout: requestWithin, WriteTimeout: answerIn,
		ErrorLog: log.New(io.Discard, "", 0), // what peers do wrong is theirs
	}
}

// openListener takes what --listen takes.
func openListener(where string) (net.Listener, error) {
	number, passed := strings.CutPrefix(where, "fd:")
	if !passed {
		return net.Listen("tcp", where)
	}
	fd, _ := strconv.Atoi(number) // checked
	f := os.NewFile(uintptr(fd), where)
	defer f.Close() // the listener has a copy
	return net.FileListener(f)
}

// ListenAddress completes the argument of --listen. By default only this host can connect: the names of
// servers and clients are private.
func ListenAddress(s string) (string, error) {
	if number, passed := strings.CutPrefix(s, "fd:"); passed {
		if fd, err := strconv.ParseUint(number, 10, 16); err != nil || fd < 3 {
			return "", fmt.Errorf("%q is no descriptor above 2", number)
		}
		return s, nil
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		host, port = "", s
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("%q is no port, address:port or fd:N", s)
	}
	switch {
	case host == "" || host == "localhost":
		host = "127.0.0.1"
	case net.ParseIP(host) == nil: // a name might be anyone's tomorrow
		return "", fmt.Errorf("%q is no IP address", host)
	}
	return net.JoinHostPort(host, port), nil
}
