// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// pageEnv names the files that make compare writes: the page, and its picture.
const pageEnv = "MCPSCOPE_COMPARE"

func TestMain(m *testing.M) {
	host.Stage() // has another environment
	if os.Getenv(pageEnv) == "" && !escape.Full() {
		os.Exit(m.Run()) // which skips, and needs no host
	}
	bed.Parallel(8)
	o := host.Options{Build: build}
	if files := os.Getenv(pageEnv); files != "" {
		o.Writable = strings.Split(files, ":")
	}
	host.Main(m, o)
}

func build(dir string) error {
	return escape.Build(dir, map[string][]string{"pgkill": escape.Go("./pgkill")})
}

// The ways to stay alive that need nothing but fork and signals, so that each contender can be put
// to them, and the ways to end that all of them have. Those that start each other again without end
// are left out: where nobody ends them they fill the table of processes of the whole machine.
var (
	modes = []string{
		"plain", "setsid", "double-fork", "dead-leader", "vfork", "no-env", "no-fds", "hold-stdout", "ignore-term", "ignore-eof", "ignore-both", "stopped", "traced",
	}
	ends = []string{"stdin", "TERM", "kill", "killpg", "tree", "client"}
)

// finding is what a contender has come to.
type finding struct {
	contender
	cells, clean, left int
	byEnd              map[string]int // cells with nothing left
	start              time.Duration  // more than nothing takes
	problem            string         // why it can't be had here
}

// All of mcpscope's backends leave nothing; what the others leave is counted. make test-full has few
// cells.
func TestCompare(t *testing.T) {
	if os.Getenv(pageEnv) == "" && !escape.Full() {
		t.Skip("make compare; a few cells: make test-full")
	}
	all, modes, ends := contenders(), modes, ends
	if os.Getenv(pageEnv) == "" {
		all = slices.DeleteFunc(all, func(c contender) bool { return c.name != "nothing" && c.name != "mcpscope, cgroup" })
		modes, ends = []string{"setsid", "ignore-both"}, []string{"kill"}
	}
	var findings []*finding
	for _, c := range all {
		f := &finding{contender: c, byEnd: map[string]int{}}
		findings = append(findings, f)
		if f.problem = c.unusable(); f.problem != "" {
			if c.ours {
				t.Errorf("%s: %s", c.name, f.problem)
			}
			t.Logf("SKIP %s: %s", c.name, f.problem)
			continue
		}
		t.Run(c.name, func(t *testing.T) { f.fill(t, modes, ends) })
		c.tidy(t)
		t.Logf("%s: %d of %d cells with nothing left, %d processes left in the others", c.name, f.clean, f.cells, f.left)
		if c.ours && f.clean != f.cells {
			t.Errorf("%s has left %d processes", c.name, f.left)
		}
		if c.name == "nothing" && f.clean == f.cells {
			t.Error("nothing is left without anything either: the cells test nothing")
		}
	}
	if files := os.Getenv(pageEnv); files != "" {
		measureStarts(t, findings)
		page, picture, _ := strings.Cut(files, ":")
		if err := errors.Join(os.WriteFile(page, []byte(writePage(rowsOf(findings), modes, ends, release())), 0o644), os.WriteFile(picture, []byte(draw(rowsOf(findings))), 0o644)); err != nil {
			t.Error(err)
		}
	}
}

// unusable is why a contender can't be had here.
func (c contender) unusable() string {
	argv, err := c.command(host.Shared+"/zoo", "--list")
	if err != nil {
		return err.Error()
	}
	ctx, cancel := context.WithTimeout(context.Background(), escape.Patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	switch {
	case err != nil:
	case !strings.Contains(string(out), "double-fork"):
		err = errors.New("the server's output is not there")
	case strings.Contains(string(out), c.without) && c.without != "":
		err = errors.New("it refuses to work inside a container, such as the test's")
	}
	if err != nil {
		said, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		return strings.TrimSuffix(fmt.Sprintf("%v: %s", err, said), ": ")
	}
	return ""
}

// tidy removes the groups that a container runtime leaves when it is killed, and waits for ours to
// be removed.
func (c contender) tidy(t *testing.T) {
	if c.ours {
		for _, dir := range []string{"/sys/fs/cgroup/mcp.slice", "/sys/fs/cgroup/mcp.slice/0"} {
			escape.WantNoServers(t, dir, "compared", escape.Patience)
		}
	}
	if c.bundle == nil {
		return
	}
	left, _ := filepath.Glob("/sys/fs/cgroup/" + c.name + "-*") // the pattern is valid
	for _, dir := range left {
		if err := bed.Destroy(dir); err != nil {
			t.Error(err)
		}
	}
}

var sites atomic.Int32

// fill runs a contender's cells.
func (f *finding) fill(t *testing.T, modes, ends []string) {
	var mu sync.Mutex
	known := escape.Ends()
	t.Run("cells", func(t *testing.T) {
		for _, mode := range modes {
			for _, end := range escape.Named(t, known, ends...) {
				t.Run(mode+"/"+end.Name, func(t *testing.T) {
					t.Parallel()
					left := f.cell(t, mode, end)
					mu.Lock()
					defer mu.Unlock()
					f.cells++
					f.left += left
					if left == 0 {
						f.clean++
						f.byEnd[end.Name]++
					}
				})
			}
		}
	})
}

// cell starts a server below the contender, ends it, and returns how many processes are left.
func (f *finding) cell(t *testing.T, mode string, end escape.End) int {
	own, err := bed.OwnGroup()
	if err != nil {
		t.Fatal(err)
	}
	s := &escape.Site{T: t, Programs: escape.ProgramsIn(host.Shared), Dir: filepath.Join(own, fmt.Sprint("compared.", sites.Add(1)))}
	s.View = s.Dir
	s.Command = func(args ...string) *exec.Cmd {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/root", "LANG=C.UTF-8"}
		return cmd
	}
	s.Make()
	members := escape.NewMembers(t)
	argv, err := f.command(s.Programs.Zoo, "--register", members.Address, mode)
	if err != nil {
		t.Fatal(err)
	}
	client := s.NewClient(s.Group("client"), []string{"--group"}, argv)
	if err := members.UntilReady(2 * escape.Patience); err != nil {
		t.Fatalf("%v; stderr: %s", err, escape.Contents(client.Stderr))
	}
	end.Do(&escape.Cell{T: t, Site: s, Client: client})
	left := members.UntilDead(within)
	members.Kill()
	if n := members.UntilDead(escape.Patience); n > 0 {
		t.Errorf("%d processes outlive SIGKILL", n)
	}
	client.End()
	return left
}

// measureStarts takes the median of starts of a program that ends at once, less that of nothing.
func measureStarts(t *testing.T, findings []*finding) {
	took := map[*finding][]time.Duration{}
	for range starts {
		for _, f := range findings {
			if f.problem != "" {
				continue
			}
			argv, err := f.command(host.Shared+"/zoo", "--list")
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(argv[0], argv[1:]...)
			began := time.Now()
			if err := cmd.Run(); err != nil {
				t.Errorf("%s: %v", f.name, err)
			}
			took[f] = append(took[f], time.Since(began))
		}
	}
	median := func(f *finding) time.Duration {
		slices.Sort(took[f])
		return took[f][len(took[f])/2]
	}
	for _, f := range findings {
		if f.problem == "" {
			f.start = median(f) - median(findings[0])
		}
	}
}

func rowsOf(findings []*finding) (all []row) {
	for _, f := range findings {
		all = append(all, row{f.name, f.better, f.cells, f.clean, f.left, f.byEnd, f.start, f.problem, f.ours})
	}
	return all
}

// release is the kernel's, for the page.
func release() string {
	var u unix.Utsname
	_ = unix.Uname(&u) // it can't fail
	text := unix.ByteSliceToString(u.Release[:])
	parts := strings.SplitN(text, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// The committed page has mcpscope without a cell that leaves something, and a row for each contender.
func TestCommittedPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/understand/comparison.md")
	if err != nil {
		t.Fatal(err)
	}
	all := len(modes) * len(ends)
	for _, c := range contenders() {
		_, rest, found := strings.Cut(string(text), "\n| "+c.name+" |")
		row, _, _ := strings.Cut(rest, "\n")
		if !found || c.ours && !strings.Contains(row, fmt.Sprintf("| **%d** | 0 |", all)) {
			t.Errorf("%s: %q; make compare writes the page anew", c.name, row)
		}
	}
}
