// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/cli"
)

// writeSettings makes that text the settings of the user, and returns the file.
func writeSettings(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	file := filepath.Join(dir, "mcpscope", "mcpscope.toml")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const someSettings = `[defaults]
term-grace = "5s"
except = ["mcp-tool *", "x"]
require = true
[server."git*"]
memory-max = "1G"
[client.mytool]
path = "~/.mytool/mcp.json"
`

// Each value is shown with its source.
func TestConfig(t *testing.T) {
	file := writeSettings(t, someSettings)
	t.Setenv("MCPSCOPE_STDERR", "journal")
	s := say("config")
	if s.status != cli.ExitOK || s.err != "" {
		t.Errorf("%+v", s)
	}
	squeezed := ""
	for line := range strings.Lines(s.out) {
		squeezed += strings.Join(strings.Fields(line), " ") + "\n"
	}
	for _, want := range []string{
		"SETTING VALUE SOURCE", "eof-grace 1.2s default", "term-grace 5s " + file + ":2", "except mcp-tool *, x " + file + ":3",
		"require true " + file + ":4", "stderr journal MCPSCOPE_STDERR", "memory-max max default", "report - default",
		`server."git*".memory-max 1G ` + file + ":6", "client.mytool.path ~/.mytool/mcp.json " + file + ":8",
	} {
		if !strings.Contains("\n"+squeezed, "\n"+want+"\n") {
			t.Errorf("no %q in\n%s", want, squeezed)
		}
	}
	s = say("config", "github")
	if !strings.Contains(s.out, "1G") || strings.Contains(s.out, "server.") || strings.Contains(s.out, "client.") {
		t.Errorf("of one server: %+v", s)
	}
}

func TestConfigJSON(t *testing.T) {
	file := writeSettings(t, someSettings)
	t.Setenv("MCPSCOPE_STDERR", "journal")
	s := say("config", "github", "--json")
	var view configView
	if err := json.Unmarshal([]byte(s.out), &view); err != nil || s.status != cli.ExitOK || view.Version != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
	got := map[string]string{}
	for _, v := range view.Settings {
		line, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		got[v.Key] = string(line)
	}
	for key, want := range map[string]string{
		"eof-grace":  `{"key":"eof-grace","value":"1.2s","source":"default"}`,
		"replace":    `{"key":"replace","value":false,"source":"default"}`,
		"report":     `{"key":"report","source":"default"}`,
		"require":    `{"key":"require","value":true,"source":"file","file":"` + file + `","line":4}`,
		"except":     `{"key":"except","value":["mcp-tool *","x"],"source":"file","file":"` + file + `","line":3}`,
		"memory-max": `{"key":"memory-max","value":"1G","source":"file","file":"` + file + `","line":6}`,
		"stderr":     `{"key":"stderr","value":"journal","source":"environment","variable":"MCPSCOPE_STDERR"}`,
	} {
		if got[key] != want {
			t.Errorf("%s\nwant %s", got[key], want)
		}
	}
}

// A mistake is named as doctor names it, and the status shows it to scripts.
func TestConfigMistakes(t *testing.T) {
	file := writeSettings(t, "[defaults]\nmemory-maks = \"1G\"\n")
	t.Setenv("MCPSCOPE_BACKEND", "nowhere")
	s := say("config")
	for _, want := range []string{"mcpscope: " + file + ":2: unknown key \"memory-maks\"; did you mean memory-max?\n", `mcpscope: MCPSCOPE_BACKEND: "nowhere" is none of auto`} {
		if s.status != cli.ExitFailure || !strings.Contains(s.err, want) {
			t.Errorf("%+v, want %q", s, want)
		}
	}
	s = say("config", "--json")
	if s.status != cli.ExitFailure || s.err != "" || !strings.Contains(s.out, `:2: unknown key \"memory-maks\"`) {
		t.Errorf("%+v", s)
	}
	checkSaid(t, map[string]said{
		"config a b":    usage("config", "only one name is possible"),
		"config --nope": usage("config", `unknown flag "--nope"`),
	})
}

// Flags and variables in the files of clients come before all other settings, so they are shown, too.
func TestConfigHasTheFlagsInClientsFiles(t *testing.T) {
	u := newUser(t)
	u.write(u.config, strings.Replace(wrapped(u.program, `"--idle-freeze", "10m", `), `"env": {`, `"env": {"MCPSCOPE_MIN_FREE": "1G", `, 1))
	place := u.config + ":1"
	s := say("config", "time")
	rows := strings.Split(strings.TrimSpace(s.out), "\n")
	last := rows[len(rows)-2:]
	got := []string{strings.Join(strings.Fields(last[0]), " "), strings.Join(strings.Fields(last[1]), " ")}
	if want := []string{"MCPSCOPE_MIN_FREE 1G " + place, "--idle-freeze 10m " + place}; s.status != cli.ExitOK || !slices.Equal(got, want) {
		t.Errorf("%+v\nwant %q", s, want)
	}
	want := `{
      "key": "--idle-freeze",
      "value": "10m",
      "source": "client",
      "file": "` + u.config + `",
      "line": 1
    }`
	u.wants(0, []string{want}, "config", "time", "--json")
	if s := say("config"); strings.Contains(s.out, place) {
		t.Errorf("without a name: %+v", s)
	}
}

// A mistyped name of a server is a note: the file itself has no mistake.
func TestConfigNotesATableForNoServer(t *testing.T) {
	u := newUser(t)
	file := writeSettings(t, "[server.tmie]\nmemory-max = '1G'\n[server.claude]\npids-max = 9\n")
	line := file + `:2: no configured and no running server is called "tmie"; did you mean time?`
	for _, command := range [][]string{{"config"}, {"config", "time"}} {
		if s := say(command...); s.status != cli.ExitOK || s.err != "mcpscope: note: "+line+"\n" {
			t.Errorf("%q: %d, %q", command, s.status, s.err)
		}
	}
	u.wants(0, []string{`"notes": [`, `is called \"tmie\"; did you mean time?"`}, "config", "--json")
	writeSettings(t, "[server.time]\nmemory-max = '1G'\n")
	if s := say("config"); s.err != "" {
		t.Errorf("%q", s.err)
	}
}

// A name that is mistyped would look as if its section did not count.
func TestConfigOfNoServer(t *testing.T) {
	u := newUser(t)
	u.wants(0, []string{`mcpscope: note: no configured and no running server is called "tmie"; did you mean time?`}, "config", "tmie")
	if s := say("config", "time"); strings.Contains(s.err, "is called") {
		t.Errorf("a server that is configured: %q", s.err)
	}
}
