// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/host"
)

// A command finds the signals as its client has set them, whichever way mcpscope starts it: before its Go runtime or
// after it, in a shell or in a service, where systemd ignores SIGPIPE.
func TestSignalsOfEveryStart(t *testing.T) {
	dir := host.Directory(t, host.Root)
	settings := func(name, text string) string {
		file := filepath.Join(dir, name, "mcpscope/mcpscope.toml")
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return "XDG_CONFIG_HOME=" + filepath.Join(dir, name)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // the user of a unit reads it
		t.Fatal(err)
	}
	service := []string{"systemd-run", "--quiet", "--wait", "--pipe", "--collect", "--"}
	ofUser := slices.Insert(slices.Clone(service), 1, "--property=User="+host.Tester.Name, "--property=Delegate=yes")
	starts := map[string]struct {
		before   []string // the command line of the client
		variable string
		flags    []string
	}{
		"plain":                    {},
		"flag":                     {flags: []string{"--replace"}},
		"flag that main reads":     {flags: []string{"--stderr=inherit"}},
		"settings":                 {variable: settings("set", "[defaults]\neof-grace = \"3s\"\n")},
		"settings that main reads": {variable: settings("server", "[server.\"*\"]\neof-grace = \"3s\"\n")},
		"settings of comments":     {variable: settings("comments", "# nothing\n")},
		"variable":                 {variable: "MCPSCOPE_TERM_GRACE=3s"},
		"unit":                     {before: service},
		"unit with a flag":         {before: service, flags: []string{"--term-grace=3s"}},
		"unit with User=":          {before: ofUser},
		"unit with User=, setting": {before: ofUser, variable: "MCPSCOPE_TERM_GRACE=3s"},
	}
	signals := map[string][]string{
		"ignored": {"--ignore-signal=PIPE", "--ignore-signal=HUP", "--ignore-signal=CHLD"},
		"blocked": {"--block-signal=USR1", "--block-signal=TERM", "--block-signal=RTMIN"},
	}
	show := []string{"sed", "-n", "/^Sig[BIC]/p", "/proc/self/status"}
	for start, s := range starts {
		for kind, options := range signals {
			client := slices.Concat(s.before, []string{"env"}, options)
			if s.variable != "" {
				client = append(client, s.variable)
			}
			want := host.Must(t, host.Current(t).Command(host.Root, append(slices.Clone(client), show...)...))
			for _, command := range []string{"run", "gateway"} {
				line := slices.Concat(client, []string{mcpscope, command}, s.flags, []string{"--"}, show)
				got := host.Must(t, host.Current(t).Command(host.Root, line...))
				if got != want || !strings.Contains(got, "SigCgt:\t0000000000000000") {
					t.Errorf("%s, %s, %s:\n%swant\n%s", command, start, kind, got, want)
				}
			}
		}
	}
}
