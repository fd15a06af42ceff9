//go:build linux

package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/scope"
)

// Where there can be no filter, a program that is looked for in PATH can still be had before it runs: by a file
// of its name in a directory that comes first.

// ShimCommand is the subcommand that such a file is a script of.
const ShimCommand = "shim"

// Shims are such files, and what they need to know.
type Shims struct {
	Dir     string
	Gateway int // a pid
	Servers
}

// shimsFile is not executable, so it is none of them.
const shimsFile = ".shims.json"

// shebangMost is what the kernel reads of a first line (Linux 5.1; before, it was 128).
const shebangMost = 127

// newShims makes a directory that belongs to the user alone.
func newShims() (dir string, err error) {
	for _, below := range []string{os.Getenv("XDG_RUNTIME_DIR"), os.TempDir()} {
		if below == "" {
			continue
		}
		if dir, err = os.MkdirTemp(below, "mcpscope-shims."); err == nil {
			return dir, nil
		}
	}
	return "", err
}

// fill makes a file for each program of PATH that runs servers, or may be one.
func (s *Shims) fill(program, path string) error {
	line := fmt.Sprintf("#!%s %s\n", program, ShimCommand)
	if len(line) > shebangMost || strings.ContainsAny(program, " \t\n") || !filepath.IsAbs(program) {
		return fmt.Errorf("a script can't name %q as its interpreter", program)
	}
	facts, err := json.Marshal(s)
	if err == nil {
		err = os.WriteFile(filepath.Join(s.Dir, shimsFile), facts, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write shims: %w", err)
	}
	for _, dir := range filepath.SplitList(path) {
		entries, _ := os.ReadDir(dir) // PATH names what need not be there
		for _, e := range entries {
			if name := e.Name(); !isLauncher(name) && !namesMCP(name) || unix.Access(filepath.Join(dir, name), unix.X_OK) != nil {
				continue
			}
			if err := os.WriteFile(filepath.Join(s.Dir, e.Name()), []byte(line), 0o700); err != nil {
				return fmt.Errorf("write shims: %w", err)
			}
		}
	}
	return nil
}

// removeShims is for the end of the gateway.
func removeShims(dir string) {
	if dir != "" {
		_ = os.RemoveAll(dir) // at worst some small files stay in a directory for temporary ones
	}
}

// OpenShims reads what the file called path belongs to.
func OpenShims(path string) (*Shims, error) {
	b, err := os.ReadFile(filepath.Join(filepath.Dir(path), shimsFile))
	if err != nil {
		return nil, err
	}
	s := &Shims{}
	if err := json.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("read shims: %w", err)
	}
	return s, nil
}

// Real finds the program that a shim stands before.
func (s *Shims) Real(name, path string) (string, error) {
	var rest []string
	for _, dir := range strings.Split(path, ":") {
		if filepath.Clean(dir) != filepath.Clean(s.Dir) {
			rest = append(rest, dir)
		}
	}
	return scope.Lookup(name, strings.Join(rest, ":"))
}

// Serves tells whether the calling process, with this command line, is a server.
func (s *Shims) Serves(argv []string) bool {
	c := Caller{Direct: os.Getppid() == s.Gateway, Stdio: conveyed(os.Getpid(), 0) && conveyed(os.Getpid(), 1), Argv: argv, Path: argv[0]}
	verdict, _ := s.Rules.Decide(c)
	return verdict == Taken
}

// Name is what its group is called.
func (s *Shims) Name(argv []string) string { return s.Rules.name(argv) }

// shim puts the shims before all other programs, for a gateway that can have no filter.
func (g *Gateway) shim(dir string) error {
	if dir == "" {
		return errors.New("there is no directory for them")
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	s := &Shims{Dir: dir, Gateway: os.Getpid(), Servers: g.Servers}
	path := variable(g.Env, "PATH")
	if err := s.fill(program, path); err != nil {
		return err
	}
	g.Env = append([]string{"PATH=" + dir + ":" + path}, without(g.Env, "PATH")...)
	return nil
}

func variable(env []string, name string) string {
	for _, v := range env {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

func without(env []string, name string) []string {
	var rest []string
	for _, v := range env {
		if !strings.HasPrefix(v, name+"=") {
			rest = append(rest, v)
		}
	}
	return rest
}
