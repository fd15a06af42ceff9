// SPDX-License-Identifier: Apache-2.0

package elsewhere

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// flags make Chromium run without a screen, and below root. Debian's reads them for all users.
const flags = `export CHROMIUM_FLAGS="$CHROMIUM_FLAGS --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync --user-data-dir=$HOME/profile"
`

// A user signs in with a browser that is outside of the server's group: it stays when that ends, and its memory does
// not count.
func TestSignIn(t *testing.T) { ends(t, signIn) }

// A browser that a server starts itself ends with it. With a session bus Chromium has the user's manager put its first
// process into a scope of its own, which is not the server's.
func TestOwnBrowser(t *testing.T) { ends(t, ownBrowser) }

// ends runs a test for each user, with the server's usual end and with one that leaves it to the supervisor.
func ends(t *testing.T, test func(t *testing.T, u host.User, name string, end func(*server))) {
	require(t, "chromium")
	require(t, "xdg-open")
	const settings = "/etc/chromium.d/mcpscope-test" // of the booted host
	if err := os.WriteFile(settings, []byte(flags), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(settings) }) // with the host, at the latest
	for _, u := range []host.User{host.Root, host.Tester} {
		for name, end := range map[string]func(*server){
			"closed": func(s *server) { _ = s.stdin.Close() },
			"killed": func(s *server) { _ = s.cmd.Process.Kill() },
		} {
			t.Run(u.Name+"/"+name, func(t *testing.T) { test(t, u, name, end) })
		}
	}
}

func signIn(t *testing.T, u host.User, name string, end func(*server)) {
	home := home(t, u)
	s := start(t, u, "detaches-"+name, []string{"DISPLAY=:99", "HOME=" + home}, nil, host.Shared+"/signin")
	t.Cleanup(func() { host.StopUnits(t, u, "detached-xdg*", "app-*hromium*") })
	s.hears(t, "signed in by Mozilla/")
	browser, units := browserOf(t, home)
	first := mainOf(t, browser)
	var names []string
	for dir := range units {
		unit := filepath.Base(dir)
		names = append(names, unit)
		if !strings.HasPrefix(unit, "detached-xdg_open-") && !strings.HasPrefix(unit, "app-org.chromium.") {
			t.Errorf("some of the browser is in %s", dir)
		}
	}
	members := append(processes(t, s.scope+"/payload"), s.supervisor...)
	own, theirs := serverMemory(t, u, "detaches-"+name), proportional(browser)
	t.Logf("the server has %.1f MB, the browser's %d processes %.1f MB", float64(own)/1e6, len(browser), float64(theirs)/1e6)
	if own <= 0 || own > theirs/4 {
		t.Errorf("the server has %d bytes, the browser %d", own, theirs)
	}
	end(s)
	_ = s.cmd.Wait() // with the server's status, or the signal
	s.gone(t, members)
	if first.Ended(0) {
		t.Error("the browser has ended with the server")
	}
	host.StopUnits(t, u, names...)
	dead(t, browser)
	for dir := range units {
		if err := escape.AwaitRemoval(dir, patience); err != nil {
			t.Error(err)
		}
	}
}

func ownBrowser(t *testing.T, u host.User, name string, end func(*server)) {
	home := home(t, u)
	env := []string{"BROWSER=chromium %s"}
	if u != host.Root {
		env = append(env, u.ManagerEnviron()...)
	}
	env = append(env, "HOME="+home)
	s := start(t, u, "browses-"+name, env, nil, host.Shared+"/signin")
	t.Cleanup(func() { host.StopUnits(t, u, "detached-xdg*", "app-*hromium*") })
	s.hears(t, "signed in by Mozilla/")
	browser, groups := browserOf(t, home)
	first := mainOf(t, browser)
	if path, _ := bed.ProcessPath(first.PID); u != host.Root && strings.HasPrefix(hierarchy+path, s.scope) {
		t.Logf("it has stayed in the group: %v", groups)
	}
	end(s)
	_ = s.cmd.Wait() // with the server's status, or the signal
	s.gone(t, append(append(browser, s.payload...), s.supervisor...))
}

// home is that of a user who has chosen Chromium.
func home(t *testing.T, u host.User) string {
	t.Helper()
	dir := host.Directory(t, u)
	for _, step := range []error{
		os.Mkdir(dir+"/.config", 0o755), os.Chown(dir+"/.config", u.UID, u.UID),
		os.WriteFile(dir+"/.config/mimeapps.list", []byte("[Default Applications]\nx-scheme-handler/http=chromium.desktop\n"), 0o644),
	} {
		if step != nil {
			t.Fatal(step)
		}
	}
	return dir
}

// browserOf holds the processes of the browser with this home, and has the groups that they are in: with a session
// bus Chromium gets a scope of its own for the first of them, from the user's manager.
func browserOf(t *testing.T, home string) (all []*escape.Process, groups map[string]bool) {
	t.Helper()
	groups = map[string]bool{}
	for pid := range escape.Parents() {
		p, err := escape.OpenProcess(pid)
		if err != nil {
			continue // it has ended
		}
		t.Cleanup(p.Close)
		line := commandLine(p)
		path, err := bed.ProcessPath(pid)
		if err == nil && strings.HasPrefix(line, "/usr/lib/chromium/") && strings.Contains(line, home) {
			all, groups[hierarchy+path] = append(all, p), true
		}
	}
	return all, groups
}

// mainOf is the browser's first process: its others have a type.
func mainOf(t *testing.T, browser []*escape.Process) *escape.Process {
	t.Helper()
	for _, p := range browser {
		if line := commandLine(p); strings.HasPrefix(line, "/usr/lib/chromium/chromium ") && !strings.Contains(line, " --type=") {
			return p
		}
	}
	t.Fatalf("none of %d processes is the browser", len(browser))
	return nil
}

// serverMemory is what mcpscope says of it.
func serverMemory(t *testing.T, u host.User, name string) int64 {
	t.Helper()
	var facts struct {
		Servers []struct {
			Memory int64 `json:"memory_bytes"`
		}
	}
	out, err := host.Current(t).Command(u, mcpscope, "inspect", "--json", name).Output()
	if err == nil {
		err = json.Unmarshal(out, &facts)
	}
	if err != nil {
		t.Fatalf("inspect: %v: %s", err, out)
	}
	if len(facts.Servers) != 1 {
		t.Fatalf("inspect: %s", out)
	}
	return facts.Servers[0].Memory
}

// proportional is the resident memory of processes, in which what they share counts once.
func proportional(all []*escape.Process) (sum int64) {
	for _, p := range all {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", p.PID)) // it may have ended
		for line := range strings.Lines(string(text)) {
			if value, is := strings.CutPrefix(line, "Pss:"); is {
				kilobytes, _ := strconv.ParseInt(strings.Fields(value)[0], 10, 64) // the kernel's own number
				sum += kilobytes << 10
			}
		}
	}
	return sum
}
