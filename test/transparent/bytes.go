// SPDX-License-Identifier: Apache-2.0

package transparent

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
)

// Bytes arrive as they were sent, each way and on each kind of channel, while stdin is open.
func Bytes(t *testing.T, s Subject) {
	size := int64(4 << 20)
	if escape.Full() {
		size = 1 << 30
	}
	for kind := range channels {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			k := startTalk(t, s.Site(t), kind, s.contained("--eof-grace", "infinity").line("cat"))
			done := make(chan error, 1)
			go func() {
				_, err := io.CopyBuffer(struct{ io.Writer }{k.in}, &pattern{left: size}, make([]byte, 1<<20))
				done <- err
			}()
			got := &pattern{left: size}
			n, err := io.CopyN(got, k.out, size)
			if werr := <-done; werr != nil || err != nil {
				t.Errorf("sent with %v; got %d of %d with %v", werr, n, size, err)
			}
			if got.differs {
				t.Error("other bytes came back")
			}
			k.in.Close()
			if more, err := io.ReadAll(k.out); len(more) > 0 || err != nil {
				t.Errorf("%d bytes more, %v", len(more), err)
			}
			if status := k.ended(t); status != 0 {
				t.Errorf("ended with %v", status)
			}
		})
	}
}

// A pattern gives bytes that show when some are lost, doubled or moved: its period is no
// multiple of any buffer's size.
type pattern struct {
	left, at int64
	differs  bool
}

var period = func() []byte {
	all := make([]byte, 1<<20+7)
	_, _ = rand.NewChaCha8([32]byte{}).Read(all) // it never fails
	return all
}()

// Write compares with the bytes that Read gives.
func (p *pattern) Write(buf []byte) (int, error) {
	want := make([]byte, len(buf))
	n, _ := io.ReadFull(p, want)
	p.differs = p.differs || !bytes.Equal(want[:n], buf)
	return len(buf), nil
}

func (p *pattern) Read(buf []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	n := copy(buf[:min(int64(len(buf)), p.left)], period[p.at%int64(len(period)):])
	p.at += int64(n)
	p.left -= int64(n)
	return n, nil
}

// LastAnswers come after the client has closed stdin, however late in the EOF grace, and where there was
// nothing to read at all.
func LastAnswers(t *testing.T, s Subject) {
	for kind := range channels {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			gate := filepath.Join(escape.OpenDir(t), "gate")
			if err := unix.Mkfifo(gate, 0o644); err != nil {
				t.Fatal(err)
			}
			open, err := os.OpenFile(gate, os.O_RDWR, 0) // which does not wait
			if err != nil {
				t.Fatal(err)
			}
			defer open.Close()
			const server = `cat; read -r word <"$0"; echo "$word"`
			k := startTalk(t, s.Site(t), kind, s.contained("--eof-grace", "infinity").line("sh", "-c", server, gate))
			fmt.Fprintln(k.in, "request")
			k.in.Close()
			if _, err := io.ReadFull(k.out, make([]byte, len("request\n"))); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(open, "last")
			if got, err := io.ReadAll(k.out); string(got) != "last\n" || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
			if status := k.ended(t); status != 0 {
				t.Errorf("ended with %v", status)
			}
		})
	}
	for what, c := range map[string]struct{ grace, script, want string }{
		"no input":   {"0", `%s sh -c 'cat; echo last' </dev/null; echo $?`, "last\n0\n"},
		"a pipeline": {"infinity", `printf 'one\ntwo\n' | %s cat; echo $?`, "one\ntwo\n0\n"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			site := s.Site(t)
			line := strings.Join(s.contained("--eof-grace", c.grace).prefix, " ")
			if o := run(site, site.Unique("client"), []string{"sh", "-c", fmt.Sprintf(c.script, line)}); o.Stdout != c.want {
				t.Errorf("got %q", o.Stdout)
			}
		})
	}
}

// Holders: the client's ends of stdin and stdout are shared by the server alone. So the client sees EOF and
// EPIPE when it would bare; and left-overs of the server do not keep it waiting.
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
				if !pace.Eventually(escape.Patience, func() bool { return slices.Equal(holders(link), []string{"cat"}) }) {
					t.Errorf("%s is held by %q, beside the client", what, holders(link))
				}
			}
		})
	}
	t.Run("left-over process", func(t *testing.T) {
		t.Parallel()
		bed.Require(t, program("setsid"))
		const server = `trap "" TERM; setsid sleep 1000 & echo up`
		k := startTalk(t, s.Site(t), "pipe", s.contained("--term-grace", "200ms").line("sh", "-c", server))
		if got, err := io.ReadAll(k.out); string(got) != "up\n" || err != nil { // bare, it would last as long as the sleep
			t.Errorf("got %q, %v", got, err)
		}
		if status := k.ended(t); status != 0 {
			t.Errorf("ended with %v", status)
		}
	})
}

// holders are the other programs that have it open. The client's end of a pipe has
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
