// SPDX-License-Identifier: Apache-2.0

// Package documents runs the documents: each command of a block of the language console prints the lines below it.
package documents

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
	"github.com/mcpscope/mcpscope/test/pace"
)

func TestMain(m *testing.M) {
	escape.Choose(m, "documents")
	// A reader's make is not below another one, and installs the mcpscope that there is.
	for _, name := range []string{"MAKEFLAGS", "MAKELEVEL", "MFLAGS", bed.InstalledEnv} {
		_ = os.Unsetenv(name)
	}
	host.Main(m, host.Options{Users: true, Build: build, Setups: []bed.Setup{host.JournalOnDisk}})
}

const root = "../.."

const built = host.Shared + "/built"

// build makes mcpscope as make install takes it, and the cast.
func build(dir string) error {
	for _, args := range [][]string{
		{"make", "--no-print-directory", "-C", root, "build", "VERSION=v0.1.0",
			"BIN=" + filepath.Join(dir, "built")},
		{"go", "build", "-o", filepath.Join(dir, "cast"), "../../tools/cast"},
	} {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return err
		}
	}
	return nil
}

// A step is a command of a document with the lines that it prints there, or an act that precedes the next
// one.
type step struct {
	line     int
	command  string
	want     []string
	act      string // of a comment <!-- test: … -->
	notRun   string // the reason, of a comment <!-- not run: … -->
	language string // of the block
}

var comment = regexp.MustCompile(`^<!-- (test|not run): (.*) -->$`)

// steps reads a document.
func steps(document string) (all []step) {
	language := ""
	open := false
	notRun := ""
	for i, line := range strings.Split(document, "\n") {
		var last *step
		if len(all) > 0 && all[len(all)-1].command != "" {
			last = &all[len(all)-1]
		}
		m := comment.FindStringSubmatch(line)
		switch {
		case strings.HasPrefix(line, "```"):
			if open = !open; open {
				language = line[3:]
			} else {
				notRun = ""
			}
		case !open && m != nil && m[1] == "test":
			all = append(all, step{line: i + 1, act: m[2]})
		case !open && m != nil:
			notRun = m[2]
		case !open:
		case strings.HasPrefix(line, "$ "):
			all = append(all, step{line: i + 1, command: line[2:], notRun: notRun, language: language})
		case language != "console" || last == nil:
		case strings.HasPrefix(line, "> ") && len(last.want) == 0:
			last.command += "\n" + line[2:]
		default:
			last.want = append(last.want, line)
		}
	}
	return all
}

// Every command of the documents is run on a host with mcpscope installed, and prints what is printed there.
func TestCommands(t *testing.T) {
	for _, pattern := range []string{"README.md", "docs/*.md", "docs/*/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all := steps(string(text))
			// "guides-limits.md": a slash would be a test below another one.
			name := strings.ReplaceAll(strings.TrimPrefix(file, filepath.Join(root, "docs")+"/"), "/", "-")
			if filepath.Dir(file) == root {
				name = filepath.Base(file)
			}
			if len(all) == 0 || !escape.InSize(t.Name()+"/"+name) {
				continue
			}
			t.Run(name, func(t *testing.T) {
				s := newStage(t)
				for _, step := range all {
					s.play(step)
				}
			})
		}
	}
}

// A stage is a host on which a document is played.
type stage struct {
	t      *testing.T
	host   *host.Host
	client *escape.Talk
	leaked []*escape.Process
	acts   map[string]func()
}

// cast are the programs of the documents, and the server that the package runners start.
var cast = []string{"npx", "uvx", "claude", "my-gateway", "mcp-server"}

const configuration = `{
  "mcpServers": {
    "time": {"command": "uvx", "args": ["mcp-server-time"]},
    "browser": {"command": "npx", "args": ["-y", "some-browser-server"]}
  }
}
`

// newStage installs mcpscope, and the programs of a reader.
func newStage(t *testing.T) *stage {
	s := &stage{t: t, host: host.Current(t)}
	s.acts = map[string]func(){
		"start claude":          s.startClient,
		"my-gateway runs":       func() { s.sh(host.Root, "systemctl start my-gateway") },
		"wrap and start claude": func() { s.sh(host.Tester, "mcpscope wrap --yes"); s.startClient() },
		"end claude":            func() { s.endClient(false) },
		"kill claude":           func() { s.endClient(true) },
		"yesterday a client without mcpscope was killed": s.leave,
		"the leak is gone":                   func() { escape.WantEnded(t, s.leaked...) },
		"the gateway's servers are measured": s.gatewayMeasured,
		"mcpscope is gone, and clients work": s.uninstalled,
	}
	for name, files := range configurations {
		s.acts["configure "+name] = func() { s.write(files) }
	}
	s.sh(host.Root, "make --no-print-directory -C ../.. install BIN="+built)
	for _, name := range cast {
		s.sh(host.Root, "install -m 755 "+host.Shared+"/cast /usr/local/bin/"+name)
	}
	s.configure(configuration)
	s.sh(host.Root, `printf '[Service]\nType=notify\nNotifyAccess=all\nExecStart=/usr/local/bin/my-gateway\n' >/etc/systemd/system/my-gateway.service
		systemctl daemon-reload`)
	t.Cleanup(func() {
		s.endClient(false)
		s.sh(host.Root, `systemctl stop my-gateway mcpscope-metrics 2>/dev/null
			rm -rf /etc/systemd/system/my-gateway.service* ~tester/.claude.json* /etc/systemd/system.control/mcp.slice.d
			cd ~tester && rm -rf .codex .cursor .gemini .hermes .config/Code .config/goose .config/opencode && cd - >/dev/null
			rm -f /etc/systemd/system/multi-user.target.wants/mcpscope-metrics.service
			systemctl daemon-reload; make --no-print-directory -C ../.. uninstall
			rm -rf /etc/mcpscope `+"/usr/local/bin/"+strings.Join(cast, " /usr/local/bin/"))
	})
	return s
}

func (s *stage) configure(text string) { s.sh(host.Tester, "cat >~/.claude.json <<'END'\n"+text+"END") }

func (s *stage) command(u host.User, script string) *exec.Cmd {
	cmd := s.host.Command(u, "bash", "-c", script)
	if u.UID != 0 {
		cmd.Env = append(u.ManagerEnviron(), "PATH=/usr/local/bin:/usr/bin:/bin")
	}
	return cmd
}

func (s *stage) sh(u host.User, script string) string {
	s.t.Helper()
	out, err := s.command(u, script).CombinedOutput()
	if err != nil {
		s.t.Errorf("%s: %v: %s", script, err, out)
	}
	return string(out)
}

func (s *stage) startClient() {
	cmd := s.command(host.Tester, "exec claude")
	s.client = escape.StartTalk(s.t, cmd, cmd.Start)
	s.client.Hear("ready")
}

// endClient waits until the servers have exited, too.
func (s *stage) endClient(kill bool) {
	if s.client == nil {
		return
	}
	if kill {
		_ = s.client.Cmd.Process.Kill() // it has not been waited for
	}
	_ = s.client.Stdin.Close()
	_ = s.client.Cmd.Wait() // however it ended
	s.client = nil
	gone := func() bool {
		out, err := s.command(host.Tester, "mcpscope ls --client claude").Output()
		return err != nil || len(out) == 0 // a document may have uninstalled it
	}
	if !pace.Eventually(escape.Patience, gone) {
		s.t.Error("the client has ended, and its servers are still there")
	}
}

// Some commands show what happens a moment later: a gateway's server is recognized after it has answered, a
// unit's is started after the unit, an event reaches the journal late, and a leak has an age.
var later = regexp.MustCompile(`^(sudo )?(mcpscope (ls|inspect|logs|sweep --dry-run$)|journalctl )`)

func (s *stage) play(step step) {
	switch {
	case step.act != "":
		if act := s.acts[step.act]; act != nil {
			act()
		} else {
			s.t.Errorf("line %d: unknown: %s", step.line, step.act)
		}
		return
	case step.notRun != "":
		s.t.Logf("line %d: SKIP %s: %s", step.line, step.command, step.notRun)
		return
	case strings.HasPrefix(step.command, "mcpscope set ") && !s.limited():
		s.t.Logf("line %d: SKIP %s: this host has no controller for memory", step.line, step.command)
		return
	case step.language != "console":
		s.t.Errorf("line %d: a command in no block of the language console: %s", step.line, step.command)
		return
	}
	u := host.Tester
	script := step.command
	if strings.HasPrefix(script, "sudo ") { // the host has no sudo
		u = host.Root
		script = `sudo() { "$@"; }; cd ../..; ` + script
	}
	var out []byte
	var err error
	right := func() bool {
		out, err = s.command(u, script).CombinedOutput()
		return (err == nil || len(step.want) > 0) && matches(step.want, string(out))
	}
	if exit := (*exec.ExitError)(nil); !right() && !(later.MatchString(step.command) && pace.Eventually(escape.Patience, right)) ||
		err != nil && !errors.As(err, &exit) {
		s.t.Errorf("line %d: %s: %v\n%swant\n%s", step.line, step.command, err, out,
			strings.Join(step.want, "\n"))
	}
}

var (
	blanks = regexp.MustCompile(` +`)
	atEnd  = regexp.MustCompile(`(?m) +$`)
	id     = regexp.MustCompile(`\b[a-z0-9]*[0-9][a-z0-9]*\b`)
	number = regexp.MustCompile(`[0-9]+(\\\.[0-9]+)*`) // as QuoteMeta leaves it
)

// matches compares the output of a command with the document: a line "…" stands for any lines, "…" in a line
// for any text, an id for any id, a number for any number.
func matches(want []string, got string) bool {
	expr := `(?s)^`
	for _, line := range want {
		if line == "…" {
			expr += `(?:[^\n]*\n)*?`
			continue
		}
		line = regexp.QuoteMeta(blanks.ReplaceAllString(line, " "))
		line = id.ReplaceAllStringFunc(line, func(s string) string {
			if len(s) != 8 {
				return s
			}
			return "\x00"
		})
		line = number.ReplaceAllString(line, `[0-9]+(?:\.[0-9]+)*`)
		expr += strings.NewReplacer("\x00", "[a-z0-9]{8}", "…", `[^\n]*`).Replace(line) + "\n"
	}
	return regexp.MustCompile(expr + `$`).MatchString(blanks.ReplaceAllString(atEnd.ReplaceAllString(got,
		""), " "))
}
