// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

func TestMain(m *testing.M) {
	for _, name := range []string{"MAKEFLAGS", "MAKELEVEL", "MFLAGS"} { // a reader's make is not below another
		_ = os.Unsetenv(name)
	}
	o := host.Options{Users: true, Build: build, Setups: []bed.Setup{host.JournalOnDisk}}
	if file := os.Getenv(sessionEnv); file != "" {
		o.Writable = []string{file}
	}
	host.Main(m, o)
}

const (
	built    = host.Shared + "/built"
	patience = 30 * time.Second
)

// build makes what the host gets: mcpscope as make install takes it, and the cast.
func build(dir string) error {
	for _, args := range [][]string{
		{"make", "--no-print-directory", "-C", root, "build", "VERSION=v0.1.0", "BIN=" + filepath.Join(dir, "built")},
		{"go", "build", "-o", filepath.Join(dir, "cast"), "./cast"},
	} {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return err
		}
	}
	return nil
}

// documents are those whose commands are run, each in a host as it is after an installation. All of
// them take ten seconds.
func documents() []string {
	if escape.Full() {
		return []string{"README.md", "docs/use/*.md", "docs/operate/*.md", "docs/understand/*.md"}
	}
	return []string{"README.md", "docs/use/laptop.md"}
}

// step is a command of a document with what it says there, or what has to happen before the next.
type step struct {
	line     int
	command  string
	want     []string
	does     string // of a comment <!-- test: … -->
	notRun   string // the reason
	language string
}

var (
	direction = regexp.MustCompile(`^<!-- (test|not run): (.*) -->$`)
	console   = regexp.MustCompile("^```(.*)$")
)

// steps reads a document.
func steps(document string) (all []step) {
	language, open, notRun := "", false, ""
	for i, line := range strings.Split(document, "\n") {
		if m := console.FindStringSubmatch(line); m != nil {
			open, language = !open, m[1]
			if !open {
				notRun = ""
			}
			continue
		}
		if m := direction.FindStringSubmatch(line); m != nil && !open {
			if m[1] == "test" {
				all = append(all, step{line: i + 1, does: m[2]})
			} else {
				notRun = m[2]
			}
			continue
		}
		if !open {
			continue
		}
		switch {
		case strings.HasPrefix(line, "$ "):
			all = append(all, step{line: i + 1, command: line[2:], notRun: notRun, language: language})
		case language != "console" || len(all) == 0 || all[len(all)-1].command == "":
		case strings.HasPrefix(line, "> ") && len(all[len(all)-1].want) == 0:
			all[len(all)-1].command += "\n" + line[2:]
		default:
			all[len(all)-1].want = append(all[len(all)-1].want, line)
		}
	}
	return all
}

// Every command of the documents is run, and says what is printed there.
func TestCommands(t *testing.T) {
	root := host.Current(t)
	ran := 0
	for _, pattern := range documents() {
		files, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all := steps(string(b))
			if len(all) == 0 || filepath.Base(file) == "tasks.md" { // that is TestTasks'
				continue
			}
			t.Run(strings.TrimPrefix(file, "../../"), func(t *testing.T) {
				s := stage{t: t, host: root}
				s.set()
				for _, step := range all {
					ran += s.play(step)
				}
			})
		}
	}
	if ran < 15 || escape.Full() && ran < 40 {
		t.Errorf("only %d commands were run", ran)
	}
}

// stage is a host in which a document is played.
type stage struct {
	t      *testing.T
	host   *host.Host
	client *exec.Cmd
	stdin  io.Closer
	checks map[string]func() // of a document of its own
}

const configuration = `{
  "mcpServers": {
    "time": {"command": "uvx", "args": ["mcp-server-time"]},
    "browser": {"command": "npx", "args": ["-y", "some-browser-server"]}
  }
}
`

// cast are those who play, and the server that the package runners start.
var cast = []string{"npx", "uvx", "claude", "my-agent", "my-gateway", "mcp-server"}

// set installs mcpscope, and what a reader is told to have.
func (s *stage) set() {
	s.sh(host.Root, "make --no-print-directory -C ../.. install BIN="+built)
	for _, name := range cast {
		s.sh(host.Root, "install -m 755 "+host.Shared+"/cast /usr/local/bin/"+name)
	}
	s.sh(host.Tester, "cat >~/.claude.json <<'END'\n"+configuration+"END")
	s.sh(host.Root, "printf '[Service]\\nType=notify\\nNotifyAccess=all\\nExecStart=/usr/local/bin/my-gateway\\n' >/etc/systemd/system/my-gateway.service; systemctl daemon-reload")
	s.t.Cleanup(func() {
		s.end("end")
		s.sh(host.Root, `systemctl stop my-gateway mcpscope-metrics 2>/dev/null; rm -rf /etc/systemd/system/my-gateway.service* ~tester/.claude.json* /etc/systemd/system.control/mcp.slice.d
			systemctl daemon-reload; make --no-print-directory -C ../.. uninstall FORCE=1; rm -rf /etc/mcpscope `+"/usr/local/bin/"+strings.Join(cast, " /usr/local/bin/"))
	})
}

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

// soon are commands that only look, at what happens a moment later: a gateway's server is taken after it has answered, a unit's
// is started after the unit, an end is in the journal after it has come, and a leak has an age.
var soon = regexp.MustCompile(`^(sudo )?(mcpscope (ls|inspect|leaks$)|journalctl )`)

// play runs a step, and returns how many commands that were.
func (s *stage) play(step step) int {
	switch {
	case step.does != "":
		s.direct(step)
		return 0
	case step.notRun != "":
		s.t.Logf("line %d: SKIP %s: %s", step.line, step.command, step.notRun)
		return 0
	case step.language != "console":
		s.t.Errorf("line %d: a command that is in no block of the language console: %s", step.line, step.command)
		return 0
	}
	u, script := host.Tester, step.command
	if strings.HasPrefix(script, "sudo ") { // there is none in the host
		u, script = host.Root, `sudo() { "$@"; }; cd ../..; `+script
	}
	var out []byte
	var err error
	wrong := func() bool {
		out, err = s.command(u, script).CombinedOutput()
		return err != nil && len(step.want) == 0 || !matches(step.want, string(out))
	}
	failed := wrong()
	waited := time.Duration(0)
	for pause := time.Millisecond; failed && soon.MatchString(step.command) && waited < escape.Patience; pause = min(2*pause, 500*time.Millisecond) {
		waited += pause
		escape.PollFor(pause)
		failed = wrong()
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		s.t.Errorf("line %d: %s: %v", step.line, step.command, err)
	}
	if failed {
		s.t.Errorf("line %d: %s: %v\n%swant\n%s", step.line, step.command, err, out, strings.Join(step.want, "\n"))
	}
	return 1
}

// direct does what the reader does, or the client.
func (s *stage) direct(step step) {
	switch step.does {
	case "start claude":
		cmd := s.command(host.Tester, "exec claude")
		var err error
		if s.stdin, err = cmd.StdinPipe(); err != nil {
			s.t.Fatal(err)
		}
		cmd.Stderr = os.Stderr
		said := s.start(cmd)
		defer said.Close()
		s.client = cmd
		_ = said.SetReadDeadline(time.Now().Add(escape.Patience))
		if line, err := bufio.NewReader(said).ReadString('\n'); line != "ready\n" {
			s.t.Fatalf("line %d: claude says %q, %v", step.line, line, err)
		}
	case "end claude", "kill claude":
		s.end(strings.Fields(step.does)[0])
	default:
		check := s.checks[step.does]
		if check == nil {
			s.t.Errorf("line %d: nobody knows how to %s", step.line, step.does)
			return
		}
		check()
	}
}

// start starts a command, and returns what it says, in a pipe that has deadlines.
func (s *stage) start(cmd *exec.Cmd) *os.File {
	s.t.Helper()
	said, out, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd.Stdout = out
	err = cmd.Start()
	_ = out.Close() // the command has it
	if err != nil {
		s.t.Fatal(err)
	}
	return said
}

// end ends the client, and waits until its servers are gone.
func (s *stage) end(how string) {
	if s.client == nil {
		return
	}
	if how == "kill" {
		_ = s.client.Process.Kill() // it is ours, and has not been waited for
	}
	_ = s.stdin.Close()
	_ = s.client.Wait() // however it ended
	s.client = nil
	for _, name := range []string{"time", "browser"} {
		_ = s.command(host.Tester, "mcpscope wait "+name).Run() // which may have ended before
	}
}

var (
	blanks = regexp.MustCompile(` +`)
	id     = regexp.MustCompile(`\b[a-z0-9]{8}\b`)
	number = regexp.MustCompile(`[0-9]+(\\\.[0-9]+)*`) // as QuoteMeta leaves it
)

// matches compares what a command has said with what the document says: a line "…" stands for any
// lines, "…" in a line for any text, an id for any id, a number for any number.
func matches(want []string, got string) bool {
	var b strings.Builder
	b.WriteString(`(?s)^`)
	for _, line := range want {
		if line == "…" {
			b.WriteString(`(?:[^\n]*\n)*?`)
			continue
		}
		line = regexp.QuoteMeta(blanks.ReplaceAllString(line, " "))
		line = id.ReplaceAllStringFunc(line, func(s string) string {
			if strings.ContainsAny(s, "0123456789") {
				return "\x00"
			}
			return s
		})
		line = number.ReplaceAllString(line, `[0-9]+(?:\.[0-9]+)*`)
		line = strings.NewReplacer("\x00", "[a-z0-9]{8}", "…", `[^\n]*`).Replace(line)
		b.WriteString(line + "\n")
	}
	b.WriteString(`$`)
	return regexp.MustCompile(b.String()).MatchString(blanks.ReplaceAllString(trimmed(got), " "))
}

// trimmed ends each line where its text ends.
func trimmed(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		want, got string
		match     bool
	}{
		{"a  b 2h14m k3x9w2ab", "a b 3h9m abcdefg1\n", true},
		{"a\n…\nb", "a\nb\n", true},
		{"a\n…\nb", "a\nx\ny\nb\n", true},
		{"a\n…\nb", "a\nx\n", false},
		{"a … c", "a b c\n", true},
		{"1.2s x", "12s x\n", true},
		{"a", "a\nb\n", false},
		{"", "", false},
	} {
		if got := matches(strings.Split(c.want, "\n"), c.got); got != c.match {
			t.Errorf("%q, %q: %v", c.want, c.got, got)
		}
	}
	if !matches(nil, "") || matches(nil, "x\n") {
		t.Error("a command without output")
	}
}
