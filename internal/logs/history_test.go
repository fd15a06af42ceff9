// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/remedy"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/journal"
	"github.com/mcpscope/mcpscope/internal/server/names"
)

func TestOpenWithoutJournal(t *testing.T) {
	if systemd.JournalExists() {
		t.Skip("this host has a journal")
	}
	_, err := Open()
	if !errors.Is(err, systemd.ErrNoJournal) || !strings.Contains(remedy.Of(err), "mcpscope run --report FILE") {
		t.Errorf("%v, hint %q", err, remedy.Of(err))
	}
	var e Ends
	if counts, err := e.Read(); !errors.Is(err, systemd.ErrNoJournal) || counts != nil {
		t.Errorf("%v (%v)", counts, err)
	}
	if text := LastEnd(&selection.Selection{Names: []string{"time"}}); text != "" {
		t.Errorf("an end without a journal: %q", text)
	}
}

func TestFlags(t *testing.T) {
	for want, q := range map[string]Query{
		"--quiet --output=short-iso --no-hostname":                                  {},
		"--quiet --output=json":                                                     {JSON: true},
		"--quiet --output=short-iso --no-hostname --follow":                         {Follow: true},
		"--quiet --output=short-iso --no-hostname --follow --no-tail --since=@7":    {Follow: true, Since: "@7"},
		"--quiet --output=short-iso --no-hostname --follow --lines=5 --since=today": {Follow: true, Since: "today", Lines: "5"},
		"--quiet --output=short-iso --no-hostname --lines=50":                       {Lines: "50"},
	} {
		if got := strings.Join(q.flags(), " "); got != want {
			t.Errorf("%+v: %s, want %s", q, got, want)
		}
	}
}

// All events are matched without a name. The beginning of a conversation's id stands for those in the journal.
func TestArgumentsForAllServers(t *testing.T) {
	j := fakeJournal(t, `test "$2" = --field=MCPSCOPE_CONVERSATION && printf '%s\n' s1 t2 s1b`)
	entries, err := j.Entries(&Query{Servers: selection.Selection{AllUsers: true, Project: "shop", Conversation: "s1"}})
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Join(entries.arguments(), " ")
	for kind, id := range journal.MessageIDs() {
		if !strings.Contains(line, " MESSAGE_ID="+id) {
			t.Errorf("%s is not matched: %s", kind, line)
		}
	}
	if !strings.HasPrefix(line, "--no-pager --all --quiet --output=short-iso --no-hostname MESSAGE_ID=") ||
		!strings.HasSuffix(line, " MCPSCOPE_PROJECT=shop MCPSCOPE_CONVERSATION=s1 MCPSCOPE_CONVERSATION=s1b") || strings.Contains(line, "_UID") {
		t.Errorf("%s", line)
	}
}

// Users match the events that they have written, and those that root has written about their servers. Root's own
// are not those that root has written about other users' servers.
func TestEventsAbout(t *testing.T) {
	for want, users := range map[string]group.Users{
		"%": group.Everyone(), "% _UID=7 + % _UID=0 MCPSCOPE_OWNER=7": group.OneUser(7), "% _UID=0 MCPSCOPE_OWNER=0": group.OneUser(0),
	} {
		got := strings.Join(anyOf(eventsAbout(users, journal.Ended)...), " ")
		want = strings.ReplaceAll(want, "%", "MESSAGE_ID="+journal.MessageIDs()[journal.Ended])
		if got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// A time that journalctl cannot read has an example.
func TestUnknownTime(t *testing.T) {
	failed := &exec.ExitError{Stderr: []byte("Failed to parse timestamp: yesterda\n")}
	err := (&Journal{}).failed(failed)
	if err.Error() != "journalctl: Failed to parse timestamp: yesterda" || !strings.Contains(remedy.Of(err), "2h") {
		t.Errorf("%v: %q", err, remedy.Of(err))
	}
}

func TestEventsOfNamed(t *testing.T) {
	ended := "MESSAGE_ID=" + journal.MessageIDs()[journal.Ended]
	s := &selection.Selection{Names: []string{"time"}, AllUsers: true, Project: "shop"}
	got := strings.Join((&Journal{}).eventsOfNamed(s, journal.Ended), " ")
	want := ended + " MCPSCOPE_PROJECT=shop MCPSCOPE_ID=time + " + ended + " MCPSCOPE_PROJECT=shop MCPSCOPE_NAME=time"
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// The stderr of a server is a stream of its user, and its events are by that user or root.
func TestServerMatches(t *testing.T) {
	s := server{id: "k3x9w2ab", name: "time", uid: "1000"}
	got := strings.Join(anyOf(s.matches(), s.matches()), " ")
	one := " _UID=1000 _UID=0 MCPSCOPE_ID=k3x9w2ab + _UID=1000 _TRANSPORT=stdout SYSLOG_IDENTIFIER=" + names.DirectoryName("time", "k3x9w2ab")
	if strings.Count(got, one) != 2 || strings.Count(got, " + ") != 3 || strings.HasPrefix(got, "+") {
		t.Errorf("%s", got)
	}
}

func TestParseEntry(t *testing.T) {
	for entry, want := range map[string]server{
		`{"_UID":"7","MCPSCOPE_ID":"k3x9w2ab","MCPSCOPE_NAME":"time"}`: {id: "k3x9w2ab", name: "time", uid: "7"},
		`{"_UID":"0","MCPSCOPE_OWNER":"7","MCPSCOPE_ID":"a"}`:          {id: "a", uid: "7"}, // root has swept it
		`{"_UID":"8","MCPSCOPE_OWNER":"7","MCPSCOPE_ID":"a"}`:          {id: "a", uid: "8"},
		`{"_UID":"7","MCPSCOPE_NAME":"time"}`:                          {},
		`{"_UID":"7","MCPSCOPE_ID":[1,255],"MCPSCOPE_NAME":"time"}`:    {},
		`not JSON`: {},
		``:         {},
	} {
		if got, ok := parseEntry([]byte(entry)); got != want || ok != (want.id != "") {
			t.Errorf("%s: %+v, %v", entry, got, ok)
		}
	}
}

func TestFailed(t *testing.T) {
	j := &Journal{asRoot: "sudo mcpscope logs git"}
	failed := &exec.ExitError{Stderr: []byte("No journal files were opened\n")}
	if got := j.failed(failed).Error(); got != "journalctl: No journal files were opened" {
		t.Errorf("%q", got)
	}
	failed.Stderr = []byte("No journal files were opened due to insufficient permissions.\n")
	hint := remedy.Of(j.failed(failed))
	if !strings.HasPrefix(hint, "sudo mcpscope logs git, or ") {
		t.Errorf("without permission: hint %q", hint)
	}
	if got := j.failed(fs.ErrPermission); !errors.Is(got, fs.ErrPermission) {
		t.Errorf("%v", got)
	}
}

// Entries that journalctl cannot print fail with its reason, whichever command reads them.
func TestStreamOfAJournalThatMayNotBeRead(t *testing.T) {
	for text, want := range map[string][2]string{
		"No journal files were opened due to insufficient permissions.": {
			"read the journal: this user may not read any of its files", "sudo mcpscope logs, or "},
		"Journal file x is truncated": {"read the journal: journalctl: Journal file x is truncated", ""},
	} {
		journalctl := filepath.Join(t.TempDir(), "journalctl")
		script := "#!/bin/sh\necho entry\necho '" + text + "' >&2\nexit 1\n"
		if err := os.WriteFile(journalctl, []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		entries := ""
		err := (&Journal{journalctl: journalctl, asRoot: "sudo mcpscope logs"}).stream(nil, func(r io.Reader) {
			read, _ := io.ReadAll(r) // compared below
			entries = string(read)
		})
		if err == nil || err.Error() != want[0] || !strings.HasPrefix(remedy.Of(err), want[1]) || entries != "entry\n" {
			t.Errorf("%v, hint %q, entries %q", err, remedy.Of(err), entries)
		}
	}
}

// A journal that does not answer is given up, whichever command asks.
func TestAJournalThatDoesNotAnswer(t *testing.T) {
	before := answersWithin
	answersWithin = 50 * time.Millisecond
	defer func() { answersWithin = before }()
	j := fakeJournal(t, "echo entry\nexec sleep 1000\n")
	if _, err := j.output(nil); !errors.Is(err, ErrSlow) {
		t.Errorf("output: %v", err)
	}
	err := j.stream(nil, func(entries io.Reader) { _, _ = io.Copy(io.Discard, entries) })
	if !errors.Is(err, ErrSlow) {
		t.Errorf("stream: %v", err)
	}
}

// A second read continues after the last entry of the first.
func TestEndsArguments(t *testing.T) {
	ended := " MESSAGE_ID=" + journal.MessageIDs()[journal.Ended]
	const flags = "--quiet --output=json --output-fields=MCPSCOPE_CAUSE "
	for want, e := range map[string]Ends{
		flags + "--boot" + ended + "":             {Users: group.Everyone()},
		flags + "--after-cursor=s=1" + ended + "": {Users: group.Everyone(), cursor: "s=1"},
	} {
		if got := strings.Join(e.arguments(), " "); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// fakeJournal is a journal whose journalctl is a script.
func fakeJournal(t *testing.T, script string) *Journal {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journalctl")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return &Journal{journalctl: path}
}

// A name that no server has is answered by a similar one of the asked time, or by all names.
func TestHintOfTheJournal(t *testing.T) {
	unknown := &selection.UnknownError{Name: "stubb"}
	shop := selection.Selection{Project: "shop"}
	entry := func(name string) string { return `printf '%s\n' '{"MCPSCOPE_NAME":` + name + "}'\n" }
	for _, c := range []struct{ script, want string }{
		{"", ""},
		{"exit 1\n", ""},
		{entry(`"git"`) + "echo no JSON\n" + entry(`[1]`) + entry(`"git"`) + entry(`"a\nb"`) + "exit 1\n", "in the journal: a?b, git"},
		{entry(`"git"`) + entry(`"stub"`), "did you mean stub?"},
		{`test "$*" = "` + strings.Join(namesArguments, " ") + ` --since=@7 ` +
			strings.Join((&Journal{}).events(&shop, "", journal.Started, journal.Ended), " ") + "\" && " + entry(`"stub"`), "did you mean stub?"},
	} {
		j := fakeJournal(t, c.script)
		err := j.withNames(unknown, &Query{Servers: shop, Since: "@7"})
		if got := remedy.Of(err); got != c.want || !errors.Is(err, unknown) {
			t.Errorf("%s: %v, %q, want %q", c.script, err, got, c.want)
		}
	}
	running := remedy.With(&selection.UnknownError{Name: "stubb", IsNear: true}, "did you mean stub?")
	if err := fakeJournal(t, entry(`"git"`)).withNames(running, &Query{}); remedy.Of(err) != "did you mean stub?" {
		t.Errorf("a server that runs: %q", remedy.Of(err))
	}
}
