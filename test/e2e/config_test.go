// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// writeFile makes a file that root alone may write.
func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// tellPolicy is a server that says which of mcpscope's variables it has, and what its name and policy are. Others
// may be listed too: those of the backend tree are seen from every world.
func tellPolicy() []string {
	const script = `env | grep ^MCPSCOPE_ | sed s/=.*//; "$0" ls --format '{{.ID}} {{.Name}} {{.Policy}}' | sed -n "s/^$MCPSCOPE_ID //p"`
	return []string{"--", "sh", "-c", script, binaries.mcpscope}
}

// with adds to the command's environment.
func with(cmd *exec.Cmd, env ...string) *exec.Cmd {
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// A file that is wrong, or somebody else's, keeps no server from starting. What is sound of it
// counts. The report says what is wrong, and where; stderr says nothing, unless -v was given.
func TestBrokenConfiguration(t *testing.T) {
	t.Parallel()
	const sound = "[defaults]\nterm-grace = '5s'\n"
	for _, c := range []struct {
		what, text string
		spoil      func(path string) error
		want       string // after the path
		counts     bool   // what is sound
	}{
		{"unknown key", sound + "trm-grace = '1s'\n", nil, `:3: unknown key "trm-grace"; is it "term-grace"?`, true},
		{"bad value", sound + "eof-grace = 'soon'\n", nil, `:3: eof-grace: "soon" is no duration (like 1.2s, 500ms, 1d, 0 or infinity)`, true},
		{"hostile key", sound + "\"\\u001b[31m\" = 1\n", nil, `:3: unknown key "\x1b[31m"`, true},
		{"a report that can't be had", sound + "report = '/nonexistent/report'\n", nil,
			":3: cannot open the report: open /nonexistent/report: no such file or directory", true},
		{"no TOML", sound + "\nterm-grace =\n", nil, ":4: no TOML, so the file is ignored: ", false},
		{"another user's", sound, func(path string) error { return os.Chown(path, 65533, 65533) },
			": ignored: it belongs to uid 65533, neither to root nor to uid 0", false},
		{"anybody's", sound, func(path string) error { return os.Chmod(path, 0o666) }, ": ignored: everybody may write it", false},
		{"a FIFO", sound, func(path string) error { return errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)) }, ": ignored: no regular file", false},
		{"a directory", sound, func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }, ": ignored: no regular file", false},
		{"gone", sound, os.Remove, ": no such file or directory", false},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			path := filepath.Join(t.TempDir(), "mcpscope.toml")
			writeFile(t, path, c.text)
			if c.spoil != nil {
				if err := c.spoil(path); err != nil {
					t.Fatal(err)
				}
			}
			env, want := "MCPSCOPE_CONFIG="+path, "configuration: "+path+c.want
			o := w.run(with(w.mcpscope(append([]string{"run"}, tellPolicy()...)...), env))
			if o.status != 0 || o.stderr != "" || strings.Contains(o.stdout, "term-grace=5s ") != c.counts || !strings.Contains(o.stdout, "eof-grace=1.2s ") {
				t.Errorf("%+v", o)
			}
			if o := w.run(with(w.mcpscope("run", "-v", "--", "true"), env)); o.status != 0 || o.stdout != "" || !strings.Contains(o.stderr, "mcpscope: note: "+want) {
				t.Errorf("with -v: %+v", o)
			}
			if !strings.Contains(c.text, "report") {
				wantNote(t, w.run(with(w.mcpscope("run", "--report", "fd:1", "--", "true"), env)), want)
			}
			o = w.run(with(w.mcpscope("run", "--strict-config", "--", "echo", "started"), env))
			checkRefusal(t, o, failed)
			if !strings.Contains(o.stderr, path+c.want[:min(3, len(c.want))]) && !strings.Contains(o.stderr, "cannot open the report") {
				t.Errorf("strict: %s", o.stderr)
			}
			w.clean()
		})
	}
}

func wantNote(t *testing.T, o outcome, want string) {
	t.Helper()
	var report struct{ Notes []string }
	if err := json.Unmarshal([]byte(o.stdout), &report); err != nil || o.status != 0 || o.stderr != "" ||
		!slices.ContainsFunc(report.Notes, func(n string) bool { return strings.HasPrefix(n, want) }) {
		t.Errorf("no note %q: %v, %+v", want, err, o)
	}
}

// Root with the environment of another user (sudo -E, su) reads nothing of that user's: a report
// would be a file of root's, wherever that user wants it.
func TestConfigurationOfAnotherUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	home := t.TempDir()
	file, report := home+"/.config/mcpscope/mcpscope.toml", home+"/report"
	writeFile(t, file, "[defaults]\nreport = \""+report+"\"\n")
	cmd := func() *exec.Cmd { return with(w.mcpscope("run", "--", "true"), "HOME="+home) }
	checkSuccess(t, w.run(cmd()))
	if _, err := os.Stat(report); err != nil {
		t.Errorf("one's own file does not count: %v", err)
	}
	if err := errors.Join(os.Remove(report), os.Chown(file, 65533, 65533)); err != nil {
		t.Fatal(err)
	}
	checkSuccess(t, w.run(cmd()))
	if _, err := os.Stat(report); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("root wrote the report that another user asks for: %v", err)
	}
	w.clean()
}

// doctor says what is wrong with a backend, whatever a file has run do.
func TestDoctorIsNotConfigured(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := filepath.Join(t.TempDir(), "mcpscope.toml")
	writeFile(t, path, "[defaults]\nquiet = true\nrequire = true\nstrict-config = true\nnope = 1\n")
	reasons := func(env string) (all []string) {
		var d struct {
			Backends []struct {
				Backend, Reason string
				Works           bool
			}
		}
		o := w.run(with(w.mcpscope("doctor", "--json"), env))
		if err := json.Unmarshal([]byte(o.stdout), &d); err != nil || len(d.Backends) == 0 {
			t.Fatalf("%v: %+v", err, o)
		}
		for _, b := range d.Backends {
			all = append(all, fmt.Sprintf("%s %v %s", b.Backend, b.Works, b.Reason))
		}
		return all
	}
	if plain, configured := reasons("A=a"), reasons("HOME="+userHome(t, path)); !slices.Equal(plain, configured) {
		t.Errorf("%q, with a file %q", plain, configured)
	}
	w.clean()
}

// home is one in which this is the configuration file.
func userHome(t *testing.T, file string) string {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.MkdirAll(dir+"/.config/mcpscope", 0o755), os.Symlink(file, dir+"/.config/mcpscope/mcpscope.toml")); err != nil {
		t.Fatal(err)
	}
	return dir
}
