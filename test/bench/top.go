// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/transparent"
)

const (
	topHerd = 200
	topFor  = 30 * time.Second
)

// topSections look at what `top` costs while it is shown.
func topSections(b *testing.B) []Section {
	h, err := newHerd(topHerd)
	must(b, err)
	defer func() { must(b, h.end()) }()
	r := count(fmt.Sprintf("%d servers", topHerd), "% of a core", 0)
	share := 100 * topShare(b)
	r.Value = Summary{share, share, share, 1}
	r.aim("≤ 1 %", share <= 1)
	return []Section{{Title: fmt.Sprintf("top, over %v, its start included", topFor), Rows: []Row{r}}}
}

// topShare is what it uses of a processor, on a terminal that shows all of its columns.
func topShare(b *testing.B) float64 {
	b.Helper()
	cmd := exec.Command(mcpscopeFile, "top")
	term := transparent.StartTerminal(b, cmd, cmd.Start)
	term.Resize(50, 120)
	begin := time.Now()
	if !term.Await(patience, func(all string) bool { return strings.Contains(all, fmt.Sprint(topHerd, " servers")) }) {
		b.Fatalf("on the terminal: %q", term.All())
	}
	time.Sleep(topFor) // what is measured is what it does in it
	took := time.Since(begin)
	must(b, cmd.Process.Signal(unix.SIGTERM))
	_ = cmd.Wait() // by SIGTERM
	s := cmd.ProcessState
	return (s.UserTime() + s.SystemTime()).Seconds() / took.Seconds()
}
