// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
	"github.com/mcpscope/mcpscope/test/pace"
)

// A target is one of the things that a command can mean.
type target struct {
	kind string // the head of its column
	name string
	make func(*target)

	id    string          // "" for a leak
	main  *escape.Process // its main process, or the agent
	guard *escape.Process // nil for a session and a leak
	talk  *escape.Talk    // with its client; nil for a leak
}

// isNamedIn reports whether the output of a command is about this one. A leak has no id: sweep has its pid, and a list
// would have its name in the second column.
func (k *target) isNamedIn(text string) bool {
	pattern := `\b` + k.id + `\b`
	if k.kind == "leak" {
		pattern = fmt.Sprintf(`(?m)\(process %d\)|^ *\S+ +%s\b`, k.main.PID, k.name)
	}
	return regexp.MustCompile(pattern).MatchString(text)
}

type world struct {
	said   string // by the last command that is not about a name
	t      *testing.T
	shop   string // the directory of the project
	client string // the program of that name
	all    []*target
}

// newWorld makes directories and configurations, and none of the targets.
func newWorld(t *testing.T) *world {
	dir := host.Directory(t, host.Root)
	w := &world{t: t, shop: filepath.Join(dir, "shop"), client: filepath.Join(dir, "dev")}
	for _, err := range []error{
		os.Chmod(dir, 0o755),
		os.Mkdir(w.shop, 0o755),
		escape.WriteProgram(w.client, "#!/bin/sh\n\"$@\"\nexit $?\n"), // it stays the parent
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	w.configureLeak()
	w.all = []*target{
		{kind: "server", name: "git", make: func(k *target) { w.startServer(k, host.Root) }},
		{kind: "session", name: "dev", make: w.startSession},
		{kind: "orphan", name: "lost", make: w.startOrphan},
		{kind: "leak", name: "spilled", make: w.startLeak},
		{kind: "other", name: "web", make: func(k *target) { w.startServer(k, host.Tester) }},
		{kind: "ended", name: "past", make: w.startAndEnd},
	}
	t.Cleanup(w.endAll)
	return w
}

// theOrphan is the column of the orphan.
const theOrphan = 2

// allBut returns all columns but one.
func (w *world) allBut(one int) (columns []int) {
	for i := range w.all {
		if i != one {
			columns = append(columns, i)
		}
	}
	return columns
}

func (w *world) kinds() (kinds []string) {
	for _, k := range w.all {
		kinds = append(kinds, k.kind)
	}
	return kinds
}

// makeAll makes those that there are not, or not any more. The orphan comes last, and anew if another one of root was
// started: each start sweeps.
func (w *world) makeAll() {
	w.t.Helper()
	areNew := false
	makeUnlessThere := func(k *target) {
		isThere := k.main != nil && (k.kind == "ended" || !k.main.Ended(0))
		if isThere {
			return
		}
		if k.talk != nil {
			w.end(k) // its launcher can be about to sweep
		}
		k.make(k)
		areNew = true
	}
	for _, i := range append(w.allBut(theOrphan), theOrphan) {
		makeUnlessThere(w.all[i])
	}
	if areNew {
		w.awaitJournal()
	}
}

// awaitJournal waits until the journal has the start of each server.
func (w *world) awaitJournal() {
	w.t.Helper()
	hasAll := func() bool {
		text := w.run([]string{"logs", "--all-users"})
		return !slices.ContainsFunc(w.all, func(k *target) bool {
			return k.kind != "session" && k.kind != "leak" && !k.isNamedIn(text)
		})
	}
	if !pace.Eventually(escape.Patience, hasAll) {
		w.t.Fatalf("the journal has not all of them:\n%s", w.run([]string{"logs", "--all-users"}))
	}
}

// command runs as a user in the directory of the project.
func (w *world) command(u host.User, argv ...string) *exec.Cmd {
	cmd := host.Current(w.t).Command(u, argv...)
	cmd.Dir = w.shop
	inConversation := func(variable string) bool { return strings.HasPrefix(variable, "CLAUDE_CODE_") }
	cmd.Env = slices.DeleteFunc(cmd.Environ(), inConversation)
	return cmd
}

// begin starts a command whose last process prints its pid, and holds that process. It ends when its stdin does.
func (w *world) begin(k *target, cmd *exec.Cmd) {
	w.t.Helper()
	k.talk = escape.StartTalk(w.t, cmd, cmd.Start)
	pid := 0
	line := k.talk.Line()
	if _, err := fmt.Sscanf(line, "ready %d", &pid); err != nil {
		w.t.Fatalf("the %s says %q; stderr: %s", k.kind, line, k.talk.Said())
	}

	k.main = w.open(k, "main process", pid)
}

// open takes hold of a process of a target that lives.
func (w *world) open(k *target, what string, pid int) *escape.Process {
	w.t.Helper()
	p, err := escape.OpenProcess(pid)
	if err != nil {
		const format = "%s %d of the %s %s: %v; listed:\n%s\nlogs:\n%s"
		listed := w.run([]string{"ls", "--all-users", "--json"})
		w.t.Fatalf(format, what, pid, k.kind, k.id, err, listed, w.run([]string{"logs", "--all-users"}))
	}
	w.t.Cleanup(p.Close)
	return p
}

func (w *world) startServer(k *target, u host.User) {
	w.t.Helper()
	w.startProgram(k, u, "echo ready $$; exec cat >/dev/null")
}

// startProgram returns when the start has swept: an orphan that is made next stays.
func (w *world) startProgram(k *target, u host.User, program string) {
	w.t.Helper()
	flags := []string{"run", "--name", k.name, "--eof-grace", "300ms", "--term-grace", "300ms", "--"}
	cmd := w.command(u, slices.Concat([]string{w.client, mcpscope}, flags, []string{"sh", "-c", program})...)
	cmd.Env = append(cmd.Env, "CLAUDE_CODE_SESSION_ID=talk-1")
	w.begin(k, cmd)
	v := w.listed(k.name)
	k.id = v.ID
	k.guard = w.open(k, "guard", v.Guard)
	escape.AwaitSettled(k.guard)
}

// startSession starts an agent alone.
func (w *world) startSession(k *target) {
	w.t.Helper()
	const program = "echo ready $PPID; exec cat >/dev/null"
	w.begin(k, w.command(host.Root, mcpscope, "gateway", "--session", "--", w.client, "sh", "-c", program))
	k.id = w.listed(k.name).ID
}

// awaitNoHelper waits until no helper runs: that of a server that was stopped sweeps when its launcher has returned.
func (w *world) awaitNoHelper() {
	w.t.Helper()
	isNone := func() bool {
		names, _ := filepath.Glob("/proc/[0-9]*/comm") // the pattern is valid
		return !slices.ContainsFunc(names, func(file string) bool {
			comm, _ := os.ReadFile(file) // none, if it has ended
			return strings.HasPrefix(string(comm), "helper-")
		})
	}
	if !pace.Eventually(escape.Patience, isNone) {
		w.t.Fatal("a helper does not end")
	}
}

func (w *world) startOrphan(k *target) {
	w.t.Helper()
	w.awaitNoHelper()
	w.startProgram(k, host.Root, "sleep infinity & echo ready $!; exec cat >/dev/null") // whose main process dies
	launcher := w.open(k, "launcher", w.listed(k.name).Launcher)
	if err := escape.KillTogether(k.guard, launcher); err != nil {
		w.t.Fatal(err)
	}
	isOrphan := func() bool { return w.listed(k.name).State == "orphan" } // a helper on its way out may have the lock
	if !pace.Eventually(escape.Patience, isOrphan) {
		w.t.Fatalf("%s is no orphan", k.name)
	}
}

func (w *world) startAndEnd(k *target) {
	w.t.Helper()
	w.startServer(k, host.Root)
	w.end(k)
}

// configureLeak puts the server into a configuration of root.
func (w *world) configureLeak() {
	w.t.Helper()
	server := map[string]any{"command": "sleep", "args": []string{"infinity"}, "cwd": w.shop}
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"spilled": server}})
	file := filepath.Join(host.Root.Home, ".claude.json")
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = os.Remove(file) }) // of this host
}

// startLeak starts the configured server without mcpscope. Its client has exited: no process has the other ends of
// its stdin and stdout.
func (w *world) startLeak(k *target) {
	w.t.Helper()
	stdin, toStdin, err := os.Pipe()
	if err != nil {
		w.t.Fatal(err)
	}
	fromStdout, stdout, err := os.Pipe()
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := w.command(host.Root, "sh", "-c", `cd "$0" && { sleep infinity <&3 3<&- >&4 4>&- 2>/dev/null & echo $!; }`, w.shop)
	cmd.ExtraFiles = []*os.File{stdin, stdout}
	out, err := cmd.Output()
	for _, end := range []*os.File{stdin, toStdin, fromStdout, stdout} {
		_ = end.Close() // the leak has its own ones
	}
	pid := 0
	if _, scanErr := fmt.Sscan(string(out), &pid); err != nil || scanErr != nil {
		w.t.Fatalf("%v: %q", err, out)
	}
	k.main = w.open(k, "main process", pid)
}

// view has the fields of ls --json that tests read.
type view struct {
	ID, Name string
	State    string
	Guard    int `json:"guard_pid"`
	Launcher int `json:"launcher_pid"`
}

// listed is the server or session of that name, the youngest: the one before may not have been removed yet.
func (w *world) listed(name string) view {
	w.t.Helper()
	var list struct{ Servers, Sessions []view }
	out, err := host.Current(w.t).Command(host.Root, mcpscope, "ls", "--all-users", "--json").Output()
	if err == nil {
		err = json.Unmarshal(out, &list)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	for _, v := range slices.Backward(slices.Concat(list.Servers, list.Sessions)) {
		if v.Name == name {
			return v
		}
	}
	w.t.Fatalf("%s is not listed: %s", name, out)
	return view{}
}

// isFrozen asks the kernel.
func (w *world) isFrozen(k *target) bool {
	w.t.Helper()
	path, err := bed.ProcessPath(k.main.PID)
	if err != nil {
		w.t.Fatal(err)
	}
	events, err := os.ReadFile("/sys/fs/cgroup" + path + "/cgroup.events")
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.Contains(string(events), "frozen 1\n")
}

// ids are those of the servers and sessions that run.
func (w *world) ids() (ids []string) {
	for _, k := range w.all {
		if k.id != "" && k.kind != "ended" && !k.main.Ended(0) {
			ids = append(ids, k.id)
		}
	}
	return ids
}

func (w *world) freezeAll() { w.run(append([]string{"freeze"}, w.ids()...)) }
func (w *world) thawAll()   { w.run(append([]string{"thaw"}, w.ids()...)) }

// end closes the stdin of a server or an agent, and waits for its end.
func (w *world) end(k *target) {
	_ = k.talk.Stdin.Close() // it may have ended
	_ = k.talk.Wait()        // as it was ended
	if !k.main.Ended(escape.Patience) {
		w.t.Errorf("the %s does not end: %s", k.kind, escape.Describe(k.main.PID))
	}
}

// endAll ends all that the test has left.
func (w *world) endAll() {
	if w.all[0].main == nil {
		return
	}
	w.run(append([]string{"stop", "--all-users", "--grace", "0s"}, w.ids()...))
	for _, k := range w.all {
		switch {
		case k.main == nil:
		case k.kind == "leak":
			k.main.Signal(unix.SIGKILL)
		default:
			w.end(k)
		}
	}
}
