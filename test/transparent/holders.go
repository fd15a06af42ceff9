// SPDX-License-Identifier: Apache-2.0

package transparent

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

// Holders: the client's ends of stdin and stdout are shared by the server alone, and those of
// stderr by the launcher too. So the client sees EOF and EPIPE when it would bare; and what
// the server leaves behind does not keep it waiting.
func Holders(t *testing.T, s Subject) {
	for kind := range channels {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			k := startTalk(t, s.Site(t), kind, s.contained().line("cat"))
			if _, err := k.in.WriteString("up\n"); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(k.out, make([]byte, 3)); err != nil {
				t.Fatal(err)
			}
			for what, link := range map[string]string{"stdin": k.inLink, "stdout": k.outLink} {
				held := holders(link)
				for pause := time.Millisecond; len(held) > 1 && pause < time.Second; pause *= 2 { // no event tells of a closed descriptor
					escape.PollFor(pause)
					held = holders(link)
				}
				if len(held) != 1 || held[0] != "cat" {
					t.Errorf("%s is held by %q, beside the client", what, held)
				}
			}
		})
	}
	t.Run("left-over process", func(t *testing.T) {
		t.Parallel()
		bed.Require(t, program("setsid"))
		k := startTalk(t, s.Site(t), "pipe", s.contained("--term-grace", "200ms").line("sh", "-c", `trap "" TERM; setsid sleep 1000 & echo up`))
		start := time.Now()
		got, err := io.ReadAll(k.out) // bare, it would last as long as the sleep
		if string(got) != "up\n" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
		if status := k.ended(t); status != 0 || time.Since(start) > escape.Patience {
			t.Errorf("ended with %v after %v", status, time.Since(start))
		}
	})
}

// holders are the programs, beside this one, that have it open. The client's end of a pipe has
// the same name.
func holders(link string) []string {
	var names []string
	for pid := range escape.Parents() {
		if pid == os.Getpid() {
			continue
		}
		open, _ := escape.OpenFiles(pid) // it may be gone
		for _, to := range open {
			if to == link {
				comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
				names = append(names, strings.TrimSpace(string(comm)))
			}
		}
	}
	return names
}
