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

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/remedy"
	"github.com/mcpscope/mcpscope/internal/selection"
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
	if text := LastEnd("time"); text != "" {
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

// All events are matched without a name. Users match those of their own processes alone, root those of all.
func TestArgumentsForAllServers(t *testing.T) {
	for uid, want := range map[int]string{0: "", 1000: " _UID=1000"} {
		j := &Journal{uid: uid}
		entries, err := j.Entries(&Query{Project: "shop", Session: "s1"}, "")
		if err != nil {
			t.Fatal(err)
		}
		line := strings.Join(entries.arguments(), " ")
		for kind, id := range journal.MessageIDs() {
			if !strings.Contains(line, " MESSAGE_ID="+id) {
				t.Errorf("uid %d: %s is not matched: %s", uid, kind, line)
			}
		}
		if !strings.HasPrefix(line, "--no-pager --all --quiet --output=short-iso --no-hostname MESSAGE_ID=") ||
			!strings.HasSuffix(line, want+" MCPSCOPE_PROJECT=shop MCPSCOPE_SESSION=s1") || strings.Contains(line, "_UID") != (want != "") {
			t.Errorf("uid %d: %s", uid, line)
		}
	}
}

// A time that journalctl cannot read has an example.
func TestUnknownTime(t *testing.T) {
	failed := &exec.ExitError{Stderr: []byte("Failed to parse timestamp: yesterda\n")}
	err := journalctlError(failed)
	if err.Error() != "journalctl: Failed to parse timestamp: yesterda" || !strings.Contains(remedy.Of(err), "2h") {
		t.Errorf("%v: %q", err, remedy.Of(err))
	}
}

func TestEventsCalled(t *testing.T) {
	ended := "MESSAGE_ID=" + journal.MessageIDs()[journal.Ended]
	got := strings.Join((&Query{Project: "shop"}).eventsCalled(7, "time", journal.Ended), " ")
	want := ended + " _UID=7 MCPSCOPE_PROJECT=shop MCPSCOPE_ID=time + " + ended + " _UID=7 MCPSCOPE_PROJECT=shop MCPSCOPE_NAME=time"
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

func TestJournalctlError(t *testing.T) {
	failed := &exec.ExitError{Stderr: []byte("No journal files were opened\n")}
	if got := journalctlError(failed).Error(); got != "journalctl: No journal files were opened" {
		t.Errorf("%q", got)
	}
	failed.Stderr = []byte("No journal files were opened due to insufficient permissions.\n")
	hint := remedy.Of(journalctlError(failed))
	if !strings.HasPrefix(hint, "sudo mcpscope logs, or ") {
		t.Errorf("without permission: hint %q", hint)
	}
	if got := journalctlError(fs.ErrPermission); !errors.Is(got, fs.ErrPermission) {
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
		err := (&Journal{journalctl: journalctl}).stream(nil, func(r io.Reader) {
			read, _ := io.ReadAll(r) // compared below
			entries = string(read)
		})
		if err == nil || err.Error() != want[0] || !strings.HasPrefix(remedy.Of(err), want[1]) || entries != "entry\n" {
			t.Errorf("%v, hint %q, entries %q", err, remedy.Of(err), entries)
		}
	}
}

// A second read continues after the last entry of the first.
func TestEndsArguments(t *testing.T) {
	ended := " MESSAGE_ID=" + journal.MessageIDs()[journal.Ended]
	const flags = "--quiet --output=json --output-fields=MCPSCOPE_CAUSE "
	for want, e := range map[string]Ends{
		flags + "--boot" + ended + " _UID=7":             {},
		flags + "--after-cursor=s=1" + ended + " _UID=7": {cursor: "s=1"},
	} {
		if got := strings.Join(e.arguments(7), " "); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// fakeJournal is a journal whose journalctl is a script.
func fakeJournal(t *testing.T, uid int, script string) *Journal {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journalctl")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return &Journal{journalctl: path, uid: uid}
}

// A name that no server has is answered by a similar one of the asked time, or by all names.
func TestHintOfTheJournal(t *testing.T) {
	unknown := &selection.UnknownError{Arg: "stubb"}
	entry := func(name string) string { return `printf '%s\n' '{"MCPSCOPE_NAME":` + name + "}'\n" }
	for _, c := range []struct{ script, want string }{
		{"", ""},
		{"exit 1\n", ""},
		{entry(`"git"`) + "echo no JSON\n" + entry(`[1]`) + entry(`"git"`) + entry(`"a\nb"`) + "exit 1\n", "in the journal: a?b, git"},
		{entry(`"git"`) + entry(`"stub"`), "did you mean stub?"},
		{`test "$*" = "` + strings.Join(namesArguments, " ") + ` --since=@7 ` +
			strings.Join((&Query{Project: "shop"}).eventsFor(9, "", journal.Started, journal.Ended), " ") + "\" && " + entry(`"stub"`), "did you mean stub?"},
	} {
		j := fakeJournal(t, 9, c.script)
		err := j.withNames(unknown, &Query{Project: "shop", Since: "@7"})
		if got := remedy.Of(err); got != c.want || !errors.Is(err, unknown) {
			t.Errorf("%s: %v, %q, want %q", c.script, err, got, c.want)
		}
	}
	running := remedy.With(&selection.UnknownError{Arg: "stubb", IsNear: true}, "did you mean stub?")
	if err := fakeJournal(t, 9, entry(`"git"`)).withNames(running, &Query{}); remedy.Of(err) != "did you mean stub?" {
		t.Errorf("a server that runs: %q", remedy.Of(err))
	}
}
