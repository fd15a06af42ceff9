// Package arch holds who may import whom, with the reason.
package arch

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/mcpscope/mcpscope/"

// rule is what a package of the product may import beyond the standard library and
// golang.org/x/sys, and why not more.
type rule struct {
	may    []string
	reason string
}

var rules = map[string]rule{
	"name":         {nil, "a name is made from words alone, on any system"},
	"proc":         {nil, "parsers of kernel files serve everyone, so they depend on nobody"},
	"inherit":      {nil, "it undoes what the Go runtime did, before anything else runs"},
	"stdio":        {nil, "it watches descriptors, and does not know whose they are"},
	"cgroup":       {[]string{"proc"}, "one directory by descriptor: neither signals nor systemd"},
	"freeze":       {[]string{"cgroup", "proc"}, "it ends groups, and does not decide when"},
	"systemd":      {nil, "it speaks D-Bus, and knows nothing of what a scope is for"},
	"spawn":        {[]string{"cgroup"}, "between fork and exec nothing but system calls may run"},
	"scope":        {[]string{"cgroup", "freeze", "name", "proc", "spawn", "stdio", "systemd"}, "the only one that knows the two processes; it never prints or exits"},
	"cmd/mcpscope": {[]string{"cgroup", "inherit", "name", "scope"}, "the only one that prints and exits"},
}

// forbidden are packages of the standard library that cost every start, or a house rule.
var forbidden = map[string]string{
	"net/http": "costs 0.35 ms at each start, twice",
	"log":      "libraries never log, and run's stderr is the server's",
	"log/slog": "libraries never log, and run's stderr is the server's",
	"os/exec":  "processes are started by spawn, which restores what the client gave us",
}

type pkg struct {
	ImportPath string
	Imports    []string
}

func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", "../../...")
	cmd.Env = append(cmd.Environ(), "GOOS=linux")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func TestImports(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range list(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		if strings.HasPrefix(name, "test/") || strings.HasPrefix(name, "demo") {
			continue
		}
		r, known := rules[name]
		if !known {
			t.Errorf("%s has no rule: say here what it may import, and why", name)
		}
		seen[name] = true
		for _, imported := range p.Imports {
			check(t, name, r, imported)
		}
	}
	for name := range rules {
		if !seen[name] {
			t.Errorf("there is a rule for %s, which does not exist", name)
		}
	}
}

func check(t *testing.T, name string, r rule, imported string) {
	t.Helper()
	if why := forbidden[imported]; why != "" {
		t.Errorf("%s imports %s, which nobody may: %s", name, imported, why)
	}
	own, ours := strings.CutPrefix(imported, module)
	switch {
	case ours && !slices.Contains(r.may, own):
		t.Errorf("%s imports %s: %s", name, own, r.reason)
	case name == "systemd" && (strings.HasPrefix(imported, "github.com/godbus/") || strings.HasPrefix(imported, "github.com/coreos/go-systemd/")):
	case !ours && strings.Contains(strings.Split(imported, "/")[0], ".") && !strings.HasPrefix(imported, "golang.org/x/sys/"):
		t.Errorf("%s imports %s, which is not in the table", name, imported)
	}
}
