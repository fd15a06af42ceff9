//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/scrape"
)

const openMetrics = "application/openmetrics-text; version=1.0.0; charset=utf-8"

// serve answers scrapers until SIGTERM.
func (f *metricsFlags) serve(io cli.Stdio) int {
	listener, err := openListener(f.listen)
	if err != nil {
		return io.Cannot("listen", err)
	}
	var once sync.Once
	stop := func() { once.Do(func() { _ = listener.Close() }) } // which ends Serve
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, unix.SIGTERM)
	go func() {
		<-terminated
		stop()
	}()
	defer stop()
	fmt.Fprintf(io.Out, "listening on http://%s/metrics\n", listener.Addr())
	s := scrape.Server{Path: "/metrics", ContentType: openMetrics, Body: f.text}
	if err := s.Serve(listener); err != nil {
		return io.Cannot("serve metrics", err)
	}
	return cli.ExitOK
}

// text is what the servers' figures are now.
func (f *metricsFlags) text() ([]byte, error) {
	servers, err := f.list()
	defer closeAll(servers)
	if err != nil {
		return nil, errors.New(cli.ErrorLine(err))
	}
	var text bytes.Buffer
	var views []view
	for _, s := range servers {
		if v, err := look(s); err == nil { // otherwise it has ended meanwhile
			v.short = s.Shortages()
			views = append(views, v)
		}
	}
	writeMetrics(&text, views)
	return text.Bytes(), nil
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

// listenAddress completes what --listen was given. Nobody but this host is let in unless an
// address says so: names of servers and clients are nobody else's business.
func listenAddress(s string) (string, error) {
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
