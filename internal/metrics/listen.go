// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/mcpscope/mcpscope/internal/selection"
)

// Bounds of a connection, whatever a peer sends, and of answers at a time.
const (
	requestWithin = 10 * time.Second
	answerIn      = 30 * time.Second
	idleMost      = 2 * time.Minute // Prometheus keeps a connection from scrape to scrape
	headMost      = 16 << 10
	answersMost   = 32
)

// Serve answers scrapers until a signal ends the process. It returns only if it cannot.
func Serve(listener net.Listener, s *selection.Selection) error {
	return NewServer(sourceOf(s)).Serve(listener)
}

// NewServer answers scrapes with these figures, in the format that the request accepts.
func NewServer(figures Source) *http.Server {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry(figures), promhttp.HandlerOpts{
		EnableOpenMetrics: true, MaxRequestsInFlight: answersMost, ErrorHandling: promhttp.HTTPErrorOnError,
	}))
	return &http.Server{
		Handler: mux, MaxHeaderBytes: headMost, IdleTimeout: idleMost,
		ReadHeaderTimeout: requestWithin, ReadTimeout: requestWithin, WriteTimeout: answerIn,
		ErrorLog: log.New(io.Discard, "", 0), // mistakes of peers
	}
}

// ListenAddress completes the argument of --listen. By default only this host can connect: the names of
// servers and clients are private.
func ListenAddress(s string) (string, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		host = ""
		port = s
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("%q is not a port or address:port", s)
	}
	switch {
	case host == "" || host == "localhost":
		host = "127.0.0.1"
	case net.ParseIP(host) == nil: // the address of a name can change
		return "", fmt.Errorf("%q is not an IP address", host)
	}
	return net.JoinHostPort(host, port), nil
}
