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
	"poll":         {nil, "it waits for descriptors, whatever they are"},
	"cgroup":       {[]string{"poll", "proc"}, "one directory by descriptor: neither signals nor systemd"},
	"resources":    {[]string{"cgroup"}, "it limits one group, whoever made that"},
	"freeze":       {[]string{"cgroup", "proc"}, "it ends groups, and does not decide when"},
	"tree":         {[]string{"cgroup", "freeze", "poll", "proc"}, "the processes below a root, with the face of a cgroup"},
	"config":       {nil, "it reads settings as text, and does not know what they are for"},
	"units":        {[]string{"atomicfile"}, "files for systemd, and no word with it"},
	"atomicfile":   {nil, "it replaces a file, whatever is in it and whosever it is"},
	"memfile":      {nil, "bytes for the next process, whatever they mean"},
	"systemd":      {nil, "it speaks D-Bus, and knows nothing of what a scope is for"},
	"spawn":        {[]string{"cgroup"}, "between fork and exec nothing but system calls may run"},
	"journal":      {nil, "it writes to the journal, and does not know what a server is"},
	"scrape":       {nil, "it answers a scraper, and does not know what with"},
	"mcp":          {nil, "it judges bytes, wherever they were read"},
	"notify":       {nil, "it holds programs until somebody has looked, and does not know what for"},
	"gateway":      {[]string{"journal", "mcp", "memfile", "name", "notify", "poll", "proc", "resources", "scope", "spawn", "tree"}, "it decides which child is a server; groups and ladders are scope's"},
	"scope":        {[]string{"cgroup", "freeze", "journal", "memfile", "name", "poll", "proc", "resources", "spawn", "stdio", "systemd", "tree"}, "the only one that knows the two processes; it never prints or exits"},
	"cmd/mcpscope": {[]string{"atomicfile", "cgroup", "clients", "config", "configfile", "gateway", "inherit", "journal", "name", "poll", "proc", "resources", "scope", "scrape", "splice", "units", "wrapping"}, "the only one that prints and exits"},
	"splice":       {nil, "bytes in, bytes out: it knows values and where they are, and not what they are for"},
	"wrapping":     {[]string{"name", "splice"}, "what a wrapped server looks like, in any file; it does no I/O"},
	"clients":      {[]string{"splice", "wrapping"}, "where clients have their files; it never looks into one"},
	"configfile":   {[]string{"atomicfile"}, "nobody's work in a file is lost, whatever is in it"},
}

// foreign are the modules of others that a package may use, by the beginning of their path.
// Each is linked into launcher and supervisor, so what it costs a start was measured (GODEBUG=inittrace=1).
var foreign = map[string][]string{
	"systemd":      {"github.com/godbus/", "github.com/coreos/go-systemd/"},
	"config":       {"github.com/pelletier/go-toml/v2/unstable"}, // the parser alone: the decoder has no lines, and reflects
	"cmd/mcpscope": {"golang.org/x/text/width"},                  // constant tables
	"splice": {
		"github.com/tailscale/hujson",     // 0.006 ms
		"github.com/pelletier/go-toml/v2", // 0.008 ms
		"github.com/goccy/go-yaml",        // 0.04 ms; go.yaml.in/yaml compiles expressions for 0.13 (v3) and 0.19 ms (v4)
	},
}

// helpers are packages that serve tests. Of what is ours they may import no more than this.
var helpers = map[string]rule{
	"test/bed":         {nil, "what checks a kill must not share the code that kills"},
	"test/host":        {[]string{"test/bed"}, "it gives tests a kind of host, and knows nothing of the product"},
	"test/escape":      {[]string{"test/bed"}, "the table is the same on every host, and knows the product from outside alone"},
	"test/operate":     {[]string{"test/bed", "test/escape", "test/transparent"}, "what operators do is the same on every host"},
	"test/transparent": {[]string{"test/bed", "test/escape"}, "what a server can tell is asked of it, on every host, and not of the product"},
}

// forbidden are packages of the standard library that cost every start, or a house rule.
var forbidden = map[string]string{
	"net/http":      "costs 0.35 ms at each start, twice",
	"crypto/sha256": "initialises all of crypto/internal/fips140 at each start; where nobody attacks, hash/fnv tells an edit",
	"log":           "libraries never log, and run's stderr is the server's",
	"log/slog":      "libraries never log, and run's stderr is the server's",
	"os/exec":       "processes are started by spawn, which restores what the client gave us",
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
	if why := forbidden[imported]; why != "" {
		t.Errorf("%s imports %s, which nobody may: %s", name, imported, why)
	}
	switch {
	case strings.HasPrefix(imported, module): // checkOwn
	case slices.ContainsFunc(foreign[name], func(begin string) bool { return strings.HasPrefix(imported, begin) }):
	case strings.Contains(strings.Split(imported, "/")[0], ".") && !strings.HasPrefix(imported, "golang.org/x/sys/"):
		t.Errorf("%s imports %s, which is not in the table", name, imported)
	}
}
