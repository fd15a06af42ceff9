// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// ended is what the tests read of `ls --ended --json` and `inspect --json`.
type ended struct {
	ID, Name, Cause string
	UID             int
	StoppedBy       string  `json:"stopped_by"`
	ExitStatus      *int    `json:"exit_status"`
	KilledTotal     int     `json:"killed_total"`
	Seconds         float64 `json:"seconds"`
	Started, Ended  string
	Events          []struct{ Event string }
}

func endedIn(t *testing.T, text string) []ended {
	t.Helper()
	var all struct {
		Version int
		Ended   []ended
	}
	if err := json.Unmarshal([]byte(text), &all); err != nil || all.Version != 1 {
		t.Fatalf("version %d, %v: %s", all.Version, err, text)
	}
	return all.Ended
}

// What happened to a server: from its name alone, after its end.
func TestEndedServers(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		name := "past-" + b.name
		f := b.events(t, name)
		first := b.start(t, name, nil, polite)
		first.end()
		f.event("ended")
		second := b.start(t, name, nil, stubborn)
		b.succeed(t, "stop", name)
		_ = second.Cmd.Wait() // killed
		if e := f.event("ended"); e.Cause != "stop-requested" {
			t.Errorf("%+v", e)
		}
		out := regexp.MustCompile(" +").ReplaceAllString(b.succeed(t, "inspect", name), " ")
		for _, want := range []string{"name " + name, ", stop-requested\n", fmt.Sprintf("uid %d: mcpscope stop %s, from ", b.user.UID, name), "exit status SIGKILL", " killed ", "client journal.test["} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
		all := endedIn(t, b.succeed(t, "inspect", "--json", name))
		if len(all) != 1 || all[0].Name != name || all[0].UID != b.user.UID || all[0].KilledTotal < 2 || !strings.Contains(all[0].StoppedBy, "mcpscope stop") || all[0].Started == "" || len(all[0].Events) < 4 {
			t.Fatalf("%+v", all)
		}
		newest := all[0].ID
		var mine []ended
		for _, e := range endedIn(t, b.succeed(t, "ls", "--ended", "--json")) {
			if e.Name == name {
				mine = append(mine, e)
			}
		}
		if len(mine) != 2 || mine[1].ID != newest || mine[0].Cause != "stdin-closed" && mine[0].Cause != "main-exited" || mine[0].ExitStatus == nil || *mine[0].ExitStatus != 3 || mine[0].StoppedBy != "" {
			t.Errorf("%+v", mine)
		}
		if out := b.succeed(t, "ls", "--ended"); !strings.Contains(out, name) || !strings.HasPrefix(out, "ID ") || !strings.Contains(out, "stop-requested") {
			t.Errorf("%s", out)
		}
		if out := b.succeed(t, "ls", "--ended", "-q", "--client", fmt.Sprint(os.Getpid())); !strings.Contains(out, newest+"\n") {
			t.Errorf("%s", out)
		}
		if out := b.succeed(t, "ls", "--ended", "--since", "2100-01-01"); out != "" {
			t.Errorf("of the future: %s", out)
		}
		// of one name, one kind, and the last
		if got := lines(b.succeed(t, "events", name, "--event", "ended")); len(got) != 2 {
			t.Errorf("%q", got)
		}
		if got := lines(b.succeed(t, "events", name, "--event", "ended", "--event", "started", "-n", "1")); len(got) != 1 || !strings.Contains(got[0], newest) || !strings.Contains(got[0], "ended") {
			t.Errorf("%q", got)
		}
		if got := b.succeed(t, "events", name, "--until", "1h"); got != "" {
			t.Errorf("before they were started: %s", got)
		}
	})
	b := backends[1]
	for _, args := range []string{"events --event nonsense", "events -n 0", "events -f --until 1h", "ls --since 1h", "ls --ended --orphans"} {
		if r := output(t, b.command(t, strings.Fields(args)...)); r.status != 2 || r.out != "" {
			t.Errorf("%s: %+v", args, r)
		}
	}
	if r := output(t, b.command(t, "inspect", "nobody-at-all")); r.status != 1 || r.stderr != "mcpscope: cannot inspect: there is no server \"nobody-at-all\"\n" {
		t.Errorf("%+v", r)
	}
}

// An orphan's end is told by who has swept it.
func TestEndedOrphan(t *testing.T) {
	b := backends[0]
	name := "past-orphan"
	f := b.events(t, name)
	s := b.start(t, name, nil, stubborn)
	if err := killGuards(s.Cmd.Process.Pid, listed(t, b, name).Supervisor); err != nil {
		t.Fatal(err)
	}
	_ = s.Cmd.Wait() // killed
	awaitState(t, b, name, "orphan")
	b.succeed(t, "sweep")
	f.event("swept")
	if all := endedIn(t, b.succeed(t, "inspect", "--json", name)); len(all) != 1 || all[0].Cause != "swept" || all[0].Ended == "" {
		t.Errorf("%+v", all)
	}
}

// The end of a server whose supervisor was killed is told by its launcher.
func TestEndOfAKilledSupervisor(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		name := "headless-" + b.name
		f := b.events(t, name)
		s := b.start(t, name, nil, stubborn)
		killSupervisor(t, b, name)
		_ = s.Cmd.Wait() // it has failed
		if e := f.event("ended"); e.Cause != "supervisor-gone" {
			t.Errorf("%+v", e)
		}
		if all := endedIn(t, b.succeed(t, "inspect", "--json", name)); len(all) != 1 || all[0].Cause != "supervisor-gone" || all[0].Ended == "" {
			t.Errorf("%+v", all)
		}
	})
}
