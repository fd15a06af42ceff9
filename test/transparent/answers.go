// SPDX-License-Identifier: Apache-2.0

package transparent

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/test/escape"
)

// lateAttempts: on a busy machine a server that sleeps for a second may be later than the EOF grace.
const lateAttempts = 3

// LastAnswers come after the client has closed stdin, as late as bare, to a client that reads
// slowly, and where there was nothing to read at all.
func LastAnswers(t *testing.T, s Subject) {
	const answer = 8 << 20
	times := []string{"0", "0.6"}
	if escape.Full() {
		times = append(times, "1") // 0.2 s less than the EOF grace, which a busy machine needs for a sleep alone
	}
	for kind := range channels {
		for _, late := range times {
			t.Run(kind+"/"+late+" s late", func(t *testing.T) {
				t.Parallel()
				for attempt := 1; ; attempt++ {
					k := startTalk(t, s.Site(t), kind, s.contained().line("sh", "-c", "cat >/dev/null; sleep "+late+"; echo last"))
					fmt.Fprintln(k.in, "request")
					k.in.Close()
					got, err := io.ReadAll(k.out)
					status := k.ended(t)
					if string(got) == "last\n" && err == nil && status == 0 {
						return
					}
					if attempt == lateAttempts {
						t.Fatalf("got %q, %v; ended with %v", got, err, status)
					}
				}
			})
		}
		t.Run(kind+"/to a slow reader", func(t *testing.T) {
			t.Parallel()
			k := startTalk(t, s.Site(t), kind, s.contained("--eof-grace", "100s").line("sh", "-c", fmt.Sprintf("cat >/dev/null; exec head -c %d /dev/zero", answer)))
			k.in.Close()
			n, buf := 0, make([]byte, answer/64)
			pace := time.NewTicker(8 * time.Millisecond) // the client's own: half a second in all
			defer pace.Stop()
			for range pace.C {
				some, err := io.ReadFull(k.out, buf)
				if n += some; err != nil {
					break
				}
			}
			if n != answer {
				t.Errorf("got %d of %d", n, answer)
			}
			if status := k.ended(t); status != 0 {
				t.Errorf("ended with %v", status)
			}
		})
	}
	t.Run("no input", func(t *testing.T) {
		t.Parallel()
		null, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer null.Close()
		site := s.Site(t)
		e, err := run(site, site.Unique("client"), null, s.contained("--eof-grace", "100ms").line("sh", "-c", "cat; sleep 0.5; echo last"))
		if err != nil || string(e.out) != "last\n" || e.status != 0 {
			t.Errorf("got %q, %v, %v", e.out, e.status, err)
		}
	})
	pipelines := map[string]struct{ grace, late string }{"lower": {"200ms", "1.5"}}
	if escape.Full() || s.Name == "cgroup" {
		pipelines["real"] = struct{ grace, late string }{"1.2s", "9.5"}
	}
	for name, p := range pipelines {
		t.Run("a pipeline into a server that reads late/"+name, func(t *testing.T) {
			t.Parallel()
			site := s.Site(t)
			line := strings.Join(s.contained("--eof-grace", p.grace).prefix, " ")
			e, err := run(site, site.Unique("client"), nil, []string{"sh", "-c", fmt.Sprintf(`printf 'one\ntwo\n' | %s sh -c 'sleep %s; cat'`, line, p.late)})
			if err != nil || string(e.out) != "one\ntwo\n" || e.status != 0 {
				t.Errorf("got %q, %v, %v", e.out, e.status, err)
			}
		})
	}
}
