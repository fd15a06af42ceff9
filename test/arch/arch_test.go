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
	"name":              {nil, "a name is made from words alone, on any system"},
	"proc":              {nil, "parsers of kernel files serve everyone, so they depend on nobody"},
	"stdio":             {[]string{"proc"}, "it watches descriptors and finds who has the other end; it knows nothing of servers"},
	"appendfile":        {nil, "it opens a file, whatever is to be written to it"},
	"poll":              {nil, "it waits for descriptors, whatever they are"},
	"cgroup":            {[]string{"poll", "proc"}, "one directory by descriptor: neither signals nor systemd"},
	"resources":         {[]string{"cgroup"}, "it limits one group, whoever made that"},
	"freeze":            {[]string{"cgroup", "poll", "proc"}, "it ends groups, and does not decide when"},
	"tree":              {[]string{"cgroup", "freeze", "poll", "proc"}, "the processes below a root, with the face of a cgroup"},
	"config":            {nil, "it reads settings as text, and does not know what they are for"},
	"units":             {[]string{"atomicfile"}, "files for systemd, and no word with it"},
	"atomicfile":        {nil, "it replaces a file, whatever is in it and whosever it is"},
	"memfile":           {nil, "bytes for the next process, whatever they mean"},
	"systemd":           {nil, "it speaks D-Bus, and knows nothing of what a scope is for"},
	"spawn":             {[]string{"cgroup"}, "between fork and exec nothing but system calls may run"},
	"journal":           {nil, "it writes to the journal, and does not know what a server is"},
	"mcp":               {nil, "it judges bytes, wherever they were read"},
	"notify":            {nil, "it holds programs until somebody has looked, and does not know what for"},
	"gateway":           {[]string{"journal", "mcp", "memfile", "name", "notify", "poll", "proc", "resources", "scope", "spawn", "tree"}, "it decides which child is a server; groups and ladders are scope's"},
	"scope":             {[]string{"cgroup", "freeze", "journal", "memfile", "name", "poll", "proc", "resources", "spawn", "stdio", "systemd", "tree"}, "the only one that knows the two processes; it never prints or exits"},
	"internal/cli":      {[]string{"appendfile", "cgroup", "scope"}, "what both programs print, and how they end; it is linked into the runner"},
	"internal/settings": {[]string{"config", "internal/cli", "name", "proc", "resources", "scope"}, "the table of settings; it is linked into the runner"},
	"cmd/mcpscope":      {[]string{"config", "internal/cli", "internal/settings", "name", "proc", "scope"}, "the runner: it stands beside every server, twice"},
	"cmd/mcpscopectl":   {[]string{"atomicfile", "clients", "config", "configfile", "gateway", "internal/cli", "internal/settings", "journal", "name", "poll", "proc", "resources", "scope", "splice", "units", "wrapping"}, "the tool: people and gateways wait for it, servers do not"},
	"splice":            {nil, "bytes in, bytes out: it knows values and where they are, and not what they are for"},
	"wrapping":          {[]string{"name", "splice"}, "what a wrapped server looks like, in any file; it does no I/O"},
	"clients":           {[]string{"splice", "wrapping"}, "where clients have their files; it never looks into one"},
	"configfile":        {[]string{"atomicfile"}, "nobody's work in a file is lost, whatever is in it"},
}

// library is a module of others, or a part of one, and why it is used.
type library struct{ path, reason string }

// foreign are the libraries that a package may use. What the runner links of them is in
// programs_test.go.
var foreign = map[string][]library{
	"systemd": {
		{"github.com/godbus/", "D-Bus"},
		{"github.com/coreos/go-systemd/", "the properties of units"},
	},
	"config": {{"github.com/pelletier/go-toml/v2/unstable", "the parser alone: the decoder has no lines, and reflects"}},
	"splice": {
		{"github.com/tailscale/hujson", "JSON with comments"},
		{"github.com/pelletier/go-toml/v2", "TOML, with the place of each value"},
		{"github.com/goccy/go-yaml", "YAML, with the place of each value"},
	},
	tool: {
		{"github.com/spf13/cobra", "commands, completions and man pages"},
		{"github.com/spf13/pflag", "cobra's flags"},
		{"charm.land/bubbletea/v2", "top: a full screen, keys and the mouse"},
		{"github.com/containerd/cgroups/v3/cgroup2", "figures of groups, and limits; not their life cycle"},
		{"github.com/sirupsen/logrus", "containerd/cgroups logs by it, and is to be silent"},
		{"github.com/prometheus/client_golang", "metrics: collector, and the handler that scrapers ask"},
		{"github.com/prometheus/common/expfmt", "metrics: the text formats"},
		{"golang.org/x/text/width", "how many cells of a terminal a character takes"},
	},
}

// helpers are packages that serve tests. Of what is ours they may import no more than this.
var helpers = map[string]rule{
	"test/bed":         {nil, "what checks a kill must not share the code that kills"},
	"test/host":        {[]string{"test/bed"}, "it gives tests a kind of host, and knows nothing of the product"},
	"test/escape":      {[]string{"test/bed"}, "the table is the same on every host, and knows the product from outside alone"},
	"test/operate":     {[]string{"test/bed", "test/escape", "test/tmux", "test/transparent"}, "what operators do is the same on every host"},
	"test/tmux":        {[]string{"test/escape"}, "a terminal, whatever runs on it"},
	"test/transparent": {[]string{"test/bed", "test/escape"}, "what a server can tell is asked of it, on every host, and not of the product"},
}

// forbidden are packages of the standard library that no library of ours may import.
var forbidden = map[string]string{
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
		if strings.HasPrefix(name, "test/") || strings.HasPrefix(name, "packaging/") || strings.HasPrefix(name, "demo") {
			seen[name] = true
			checkOwn(t, name, helpers, p.Imports)
			continue
		}
		if _, known := rules[name]; !known {
			t.Errorf("%s has no rule: say here what it may import, and why", name)
		}
		seen[name] = true
		checkOwn(t, name, rules, p.Imports)
		for _, imported := range p.Imports {
			check(t, name, imported)
		}
	}
	for _, table := range []map[string]rule{rules, helpers} {
		for name := range table {
			if !seen[name] {
				t.Errorf("there is a rule for %s, which does not exist", name)
			}
		}
	}
}

// checkOwn looks at what is imported of ours, by a package that has a rule.
func checkOwn(t *testing.T, name string, table map[string]rule, imports []string) {
	t.Helper()
	r, known := table[name]
	for _, imported := range imports {
		if own, ours := strings.CutPrefix(imported, module); known && ours && !slices.Contains(r.may, own) {
			t.Errorf("%s imports %s: %s", name, own, r.reason)
		}
	}
}

func check(t *testing.T, name, imported string) {
	t.Helper()
	if why := forbidden[imported]; why != "" && name != tool {
		t.Errorf("%s imports %s: %s", name, imported, why)
	}
	switch {
	case strings.HasPrefix(imported, module): // checkOwn
	case slices.ContainsFunc(foreign[name], func(l library) bool { return strings.HasPrefix(imported, l.path) }):
	case strings.Contains(strings.Split(imported, "/")[0], ".") && !strings.HasPrefix(imported, "golang.org/x/sys/"):
		t.Errorf("%s imports %s, which is not in the table", name, imported)
	}
}
