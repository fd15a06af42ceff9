// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/render"
	"github.com/mcpscope/mcpscope/test/opened"
	"github.com/mcpscope/mcpscope/test/unprivileged"
)

func TestLsMistakes(t *testing.T) {
	checkSaid(t, map[string]said{
		"ls time":                    usage("ls", `unexpected argument "time"`),
		"ls --filter":                usage("ls", `unknown flag "--filter"`),
		"ls --sort state":            usage("ls", `--sort "state": "state" is none of name, age, cpu, memory, procs, client`),
		"ls --format {{.Nam}}":       usage("ls", `--format "{{.Nam}}": there is no field "Nam"`),
		"ls --json --format {{.ID}}": usage("ls", "--json and --format exclude each other"),
		"ls --format {{.X}":          usage("ls", `--format "{{.X}": template: format:1: bad character U+007D '}'`),
	})
}

// The help names fields that a template can use.
func TestFieldsOfFormat(t *testing.T) {
	text := say("help", "ls").out
	_, fields, _ := strings.Cut(text, "A template of --format has the fields of --json:")
	fields, _, found := strings.Cut(fields, "{{size .Memory}}")
	if !found {
		t.Fatalf("the help names no fields: %q", text)
	}
	for _, field := range strings.Fields(fields) {
		if s := say("ls", "--client", "no-such-client", "--format", "{{."+field+"}}"); s.status != cli.ExitOK {
			t.Errorf("{{.%s}}: %+v", field, s)
		}
	}
}

// Without a server, scripts get no line, and an empty list in JSON. Notes may be on stderr.
func TestLsOfNoServer(t *testing.T) {
	if s := say("ls", "--client", "no-such-client"); s.status != cli.ExitOK || s.out != "" {
		t.Errorf("%+v", s)
	}
	for _, flags := range []string{"--json", "--format json", "--all --json --sort -memory"} {
		s := say(append([]string{"ls", "--client", "no-such-client"}, strings.Fields(flags)...)...)
		if want := "{\n  \"version\": 1,\n  \"servers\": []\n}\n"; s.status != cli.ExitOK || s.out != want {
			t.Errorf("%s: %+v, want %q", flags, s, want)
		}
	}
	if s := say("ls", "--client", "no-such-client", "--format", "{{.Name}}"); s.status != cli.ExitOK || s.out != "" {
		t.Errorf("%+v", s)
	}
}

// Without a journal the running servers are listed, and a note says what is missing.
func TestLsAllWithoutJournal(t *testing.T) {
	if systemd.JournalExists() {
		t.Skip("this host has a journal")
	}
	const want = "mcpscope: note: servers that have ended are not listed: there is no systemd journal here\n" +
		"mcpscope: hint: mcpscope run --report FILE "
	if s := say("ls", "--all"); s.status != cli.ExitOK || !strings.Contains(s.err, want) {
		t.Errorf("%+v, want %q", s, want)
	}
}

// A list that is not complete, or was not printed as asked, is a failure.
func TestListsThatAreNotComplete(t *testing.T) {
	unlisted := errors.New("read g: permission denied")
	format, err := render.ParseFormat(`{{.Started.Year}}`)
	if err != nil {
		t.Fatal(err)
	}
	nameless := []render.Server{{}}
	missing := failure("list all servers: read g: permission denied", "")
	for what, c := range map[string]struct {
		flags    lsFlags
		servers  []render.Server
		unlisted error
		want     said
	}{
		"no server listed": {lsFlags{}, nil, unlisted, missing},
		"not all listed":   {lsFlags{format: format}, nil, unlisted, missing},
		"a template that fails": {lsFlags{format: format}, nameless, nil, failure(
			"print servers by --format: template: format:1:10: executing \"format\" at <.Started.Year>: "+
				"error calling Year: value method time.Time.Year called using nil *Time pointer", "")},
	} {
		got := printed(func(stdio cli.Stdio) int { return c.flags.print(c.servers, nil, c.unlisted, stdio) })
		if got.status != c.want.status || got.err != c.want.err {
			t.Errorf("%s: %+v, want %+v", what, got, c.want)
		}
	}
}

// onlyRoot is the reason why a user does not see other users' servers.
const onlyRoot = "only root may look at the servers of other users: operation not permitted"

func TestOtherUsersNeedRoot(t *testing.T) {
	unprivileged.Run(t, func(t *testing.T) {
		for line, goal := range map[string]string{
			"ls":              "list servers",
			"ls --json":       "list servers",
			"metrics":         "list servers",
			"logs":            "print logs",
			"logs x":          "print logs",
			"stop x":          "stop",
			"stop --all":      "stop",
			"sweep":           "sweep",
			"sweep --yes":     "sweep",
			"sweep --json":    "sweep",
			"sweep --unit x":  "sweep",
			"sweep --dry-run": "look for orphans",
		} {
			line += " --all-users"
			want := said{cli.ExitFailure, "", "mcpscope: cannot " + goal + ": " + onlyRoot + "\n"} // and nothing else
			if s := say(strings.Fields(line)...); s != want {
				t.Errorf("%s: %+v\nwant %+v", line, s, want)
			}
		}
	})
}

// The notes for a person come from one reading of a client's file, which can have many megabytes.
func TestNotesOfLsReadEachFileOnce(t *testing.T) {
	u := newUser(t)
	u.write(u.config, `{"mcpServers": {"time": {"command": "uvx"}}}`)
	var f lsFlags
	count := opened.Times(t, u.config, func() {
		got := printed(func(stdio cli.Stdio) int {
			f.notePerson(proc.Take(), clientconfig.NewSearch(), true, stdio)
			return cli.ExitOK
		})
		if !strings.Contains(got.err, "1 server is configured without mcpscope: time (cursor)") {
			t.Errorf("%+v", got)
		}
	})
	if count != 1 {
		t.Errorf("read %d times", count)
	}
}

// A server starts without the settings of a file with a mistake, so a person who lists servers reads it.
func TestMistakesInSettings(t *testing.T) {
	file := writeSettings(t, "[defaults]\nmemory-max = 1G\n")
	got := mistakesInSettings()
	if want := "servers start without some settings: " + file + ":2: not TOML, so the file is ignored: "; len(got) != 1 || !strings.HasPrefix(got[0], want) {
		t.Errorf("%q, want %q", got, want)
	}
	writeSettings(t, "[defaults]\na = 1\nb = 1\nc = 1\n")
	if got := mistakesInSettings(); len(got) != 1 || !strings.HasSuffix(got[0], `:2: unknown key "a"; 2 more: mcpscope doctor`) {
		t.Errorf("%q", got)
	}
	writeSettings(t, "[defaults]\npids-max = 9\n")
	if got := mistakesInSettings(); got != nil {
		t.Errorf("%q", got)
	}
}
