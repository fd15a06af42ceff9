// SPDX-License-Identifier: Apache-2.0

// The promise, with real clients and published servers: a server works below
// `mcpscope run` as it does without, and nothing survives its client, whether
// that says good-bye or is killed, whatever runs the server's package.
package e2e

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/demo/session"
	"github.com/mcpscope/mcpscope/test/escape"
)

const (
	// clientLadder is the EOF grace and the term grace together.
	clientLadder = 2200 * time.Millisecond
	// clientMargin is for starting, scheduling and exiting on a busy machine.
	clientMargin = escape.Patience
)

func TestServersWorkAndEndUnderRealClients(t *testing.T) {
	b := openClientBed(t)
	var bare map[clientCell]session.Hello
	t.Run("bare", func(t *testing.T) { bare = b.answersBare(t) })
	eachCell(t, someCells(), func(t *testing.T, c clientCell) {
		want := bare[c.onNode()]
		t.Run("closed", func(t *testing.T) {
			closeAndWantNothingLeft(t, b.answersAs(t, c, want))
		})
		t.Run("killed", func(t *testing.T) {
			run := b.answersAs(t, c, want)
			killed := time.Now()
			if err := run.Kill(); err != nil {
				t.Fatal(err)
			}
			run.wantNothingLeft(t, killed.Add(clientLadder+clientMargin))
		})
	})
}

// answersBare is what the servers answer each client without mcpscope. How they
// are started makes no difference to that.
func (b clientBed) answersBare(t *testing.T) map[clientCell]session.Hello {
	t.Helper()
	answers := make(map[clientCell]session.Hello)
	var mu sync.Mutex
	var cells []clientCell
	for _, c := range someCells() {
		cells = append(cells, c.onNode())
	}
	slices.SortFunc(cells, func(a, b clientCell) int { return strings.Compare(a.String(), b.String()) })
	eachCell(t, slices.Compact(cells), func(t *testing.T, c clientCell) {
		run := b.bare(t, c)
		hello := run.hello(t)
		if hello.Tools == 0 || hello.Call != "ok" {
			t.Errorf("got %+v", hello)
		}
		mu.Lock()
		defer mu.Unlock()
		answers[c] = hello
	})
	return answers
}

// answersAs starts the cell below mcpscope.
func (b clientBed) answersAs(t *testing.T, c clientCell, want session.Hello) *clientRun {
	t.Helper()
	run := b.contained(t, c)
	if got := run.hello(t); got != want {
		t.Errorf("got %+v, bare %+v", got, want)
	}
	run.wantContained(t)
	return run
}

// closeAndWantNothingLeft allows for a client that takes its time: until its close
// has returned, or until the ladder is over, whichever is later.
func closeAndWantNothingLeft(t *testing.T, run *clientRun) {
	t.Helper()
	asked := time.Now()
	if err := run.Close(); err != nil {
		t.Fatal(err)
	}
	took := time.Since(asked)
	if took > clientLadder+clientMargin {
		t.Errorf("the client's close took %v", took)
	}
	run.wantNothingLeft(t, asked.Add(max(took, clientLadder)+clientMargin))
}

// A crash in the middle of a session: no call made, nothing closed. All may be
// over before there is anything to be seen.
func TestServersEndWhenTheClientCrashesMidSession(t *testing.T) {
	b := openClientBed(t)
	var cells []clientCell
	for _, client := range clientNames {
		cells = append(cells, clientCell{client, "everything", "npx"})
	}
	eachCell(t, cells, func(t *testing.T, c clientCell) {
		run := b.contained(t, c, "--kill-after-list")
		if hello := run.hello(t); hello.Tools == 0 {
			t.Errorf("got %+v", hello)
		}
		if err := run.WaitKilled(); err != nil {
			t.Fatal(err)
		}
		run.wantNothingLeft(t, time.Now().Add(clientLadder+clientMargin))
	})
}

// The control: without mcpscope these leak, so that the tests above prove
// something. If an SDK or a server has learnt better, this one says so.
func TestBareServersOutliveTheirClients(t *testing.T) {
	if !escape.Full() {
		return // it waits for what mcpscope does not end
	}
	b := openClientBed(t)
	ends := map[clientCell]func(*clientRun) error{
		// The SDK announces roots, the server asks for them 350 ms after the start,
		// and its unanswered request keeps node alive for 60 s after stdin has
		// ended. The SDK signals npx alone.
		{"gosdk", "everything", "npx"}: func(r *clientRun) error { return r.Close() },
		// The runner holds the server's stdin open.
		{"tssdk", "memory", "uvxlike"}: func(r *clientRun) error { return r.Kill() },
	}
	var cells []clientCell
	for c := range ends {
		cells = append(cells, c)
	}
	eachCell(t, cells, func(t *testing.T, c clientCell) {
		// On a machine so busy that the close comes more than 350 ms after the
		// start there is no leak to be seen.
		const attempts = 5
		for range attempts {
			if bareLeaks(t, b.bare(t, c), ends[c]) {
				return
			}
		}
		t.Errorf("nothing was left in %d attempts", attempts)
	})
}

func bareLeaks(t *testing.T, run *clientRun, end func(*clientRun) error) bool {
	t.Helper()
	run.hello(t)
	if err := end(run); err != nil {
		t.Fatal(err)
	}
	left, err := run.Left(time.Now().Add(clientLadder))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("left: %v", left)
	return len(left) > 0
}
