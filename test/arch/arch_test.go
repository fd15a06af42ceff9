// SPDX-License-Identifier: Apache-2.0

// Package arch holds who may import whom, and the calls of code that has no Go runtime, with the reasons.
package arch

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const module = "github.com/mcpscope/mcpscope/"

// room is where the packages of one server are.
const room = "internal/server/"

// rule has the packages that a package of the product may import beyond the standard library and
// golang.org/x/sys, and why not more.
type rule struct {
	may    []string
	reason string
}

var rules = map[string]rule{
	"cgroup": {[]string{"internal/kernel/proc"}, "one directory by descriptor, and its limits: neither signals nor systemd"},
	"freeze": {[]string{"cgroup", "internal/kernel/linux", "internal/kernel/proc"}, "it ends groups and trees, and does not decide when"},
	"scope":  {nil, "a library that starts the runner as a child; programs of others import it"},

	room + "names":         {[]string{"internal/name"}, "words that the kernel and people read"},
	room + "policy":        {nil, "times"},
	room + "decide":        {nil, "facts in, an action out: it runs where there is no Go runtime, too"},
	room + "roof":          {nil, "paths in, a place out: it runs where there is no Go runtime yet, too"},
	room + "causes":        {nil, "words for the reason of a stop"},
	room + "journal":       {[]string{"internal/kernel/systemd", room + "names", room + "protocol"}, "what is written to the journal"},
	room + "protocol":      {[]string{room + "names", room + "policy", "cgroup", "freeze", "internal/name", "internal/kernel/proc", "internal/kernel/systemd", room + "page"}, "words, which everyone may know: it holds no group"},
	room + "group":         {[]string{room + "causes", room + "names", room + "policy", "cgroup", "freeze", "internal/kernel/linux", "internal/kernel/proc", "internal/kernel/systemd", room + "page", room + "protocol"}, "a group does not know where it came from, nor when it ends"},
	room + "backend":       {[]string{"internal/parallel", room + "causes", room + "names", room + "policy", room + "roof", "cgroup", "freeze", room + "page", "internal/kernel/linux", "internal/kernel/proc", "internal/kernel/systemd", room + "group", room + "protocol"}, "where groups come from"},
	room + "client":        {[]string{room + "policy", "freeze", "internal/kernel/linux", "internal/kernel/proc", "internal/kernel/loop", room + "page", room + "protocol"}, "what the client does, and not what follows from it"},
	room + "container":     {[]string{room + "policy", "cgroup", "internal/kernel/linux", "internal/name", room + "protocol"}, "what an engine runs for a server"},
	"internal/kernel/loop": {[]string{"internal/kernel/linux"}, "it waits, whatever for"},
	room + "orphan":        {[]string{room + "names", "cgroup", "internal/kernel/proc", room + "group", room + "page", room + "protocol"}, "one rule for lists and sweeps; it changes nothing"},
	room + "sweep":         {[]string{room + "causes", room + "journal", room + "names", room + "policy", "internal/text", "cgroup", "freeze", "internal/kernel/linux", "internal/kernel/proc", "internal/kernel/systemd", room + "backend", room + "container", room + "group", room + "orphan", room + "protocol"}, "it ends orphans, and knows nothing of who made them"},
	room + "fleet":         {[]string{"internal/parallel", room + "causes", room + "journal", room + "names", room + "policy", "internal/text", "cgroup", "freeze", "internal/kernel/linux", "internal/kernel/proc", "internal/kernel/systemd", room + "client", room + "backend", room + "group", room + "idle", room + "orphan", room + "protocol", room + "sweep"}, "servers as anyone sees them"},
	room + "helper":        {[]string{room + "causes", room + "journal", room + "names", room + "policy", "internal/glob", "internal/name", "internal/text", "freeze", "internal/kernel/linux", "internal/kernel/loop", "internal/kernel/proc", "internal/kernel/systemd", room + "backend", room + "client", room + "container", room + "decide", room + "fleet", room + "group", room + "idle", room + "page", room + "protocol", room + "report", room + "sweep"}, "what raw code can't do, and the guard of a gateway's servers"},
	room + "admission":     {[]string{room + "policy", "cgroup", "internal/kernel/linux", "internal/kernel/proc", room + "client", room + "fleet"}, "it waits before there is anything of a server"},
	room + "launcher":      {[]string{room + "admission", room + "names", room + "policy", "internal/text", "cgroup", "freeze", "internal/kernel/linux", "internal/kernel/loop", "internal/kernel/proc", "internal/kernel/systemd", room + "backend", room + "helper", room + "client", room + "container", room + "group", room + "guard", room + "page", room + "protocol"}, "how a server begins, and not what becomes of it"},
	room + "idle":          {[]string{"cgroup", "freeze", "internal/name", "internal/kernel/proc", room + "client", room + "group", room + "page", room + "protocol"}, "it freezes and thaws, knows no events, and keeps on the page what it has seen"},
	room + "report":        {[]string{room + "causes", room + "journal", "internal/text", "internal/kernel/linux", "internal/kernel/systemd", room + "protocol"}, "what is said of an end, and not how it came about"},

	"internal/name":           {nil, "a name is made from words alone, on any system"},
	"internal/similar":        {nil, "two words, and not what they stand for"},
	"internal/flags":          {[]string{"internal/similar"}, "words in, flags set: what they mean is their command's"},
	"internal/figures":        {nil, "directories in, figures out"},
	"internal/glob":           {nil, "bytes in, yes or no out"},
	"internal/kernel/proc":    {nil, "parsers of kernel files serve everyone, so they depend on nobody"},
	"internal/kernel/linux":   {nil, "one wait for descriptors"},
	room + "guard":            {[]string{"internal/kernel/proc", "internal/settings/raw", room + "decide", room + "page", room + "roof"}, "the processes that it is about run nothing but system calls"},
	room + "page":             {[]string{room + "decide"}, "memory that processes share, whatever they run"},
	"internal/kernel/systemd": {nil, "it speaks to managers and writes to the journal, and knows nothing of what a scope is for"},
	"internal/atomicfile":     {nil, "it replaces a file, whatever is in it and whosever it is"},
	"internal/gateway/mcp":    {nil, "it judges bytes, wherever they were read"},
	"internal/gateway/notify": {[]string{"internal/kernel/linux"}, "it holds programs until somebody has looked, and does not know what for"},
	"internal/gateway":        {[]string{room + "journal", room + "names", "internal/text", "freeze", "internal/glob", "internal/kernel/linux", "internal/kernel/loop", "internal/gateway/mcp", "internal/name", "internal/gateway/notify", "internal/kernel/proc", "internal/kernel/systemd", "internal/programs", "cgroup", room + "client", room + "group", room + "guard", room + "launcher", room + "page", room + "protocol"}, "it decides which child is a server; groups and ladders are scope's"},
	"internal/text":           {nil, "a line of text that may be anything"},
	"internal/remedy":         {nil, "an error and its next step, for any package"},
	"internal/programs":       {[]string{room + "protocol"}, "the two programs of mcpscope, and those of others"},
	"internal/host":           {[]string{room + "policy", room + "names", "internal/kernel/proc", "internal/kernel/systemd", room + "backend", room + "group", room + "launcher", room + "page", room + "protocol", room + "roof"}, "what a host gives servers, and the next step for what it does not"},
	"internal/cli":            {[]string{"internal/text", "freeze", "internal/remedy", room + "protocol"}, "what both programs print, and how they end; it is linked into the runner"},
	"internal/settings":       {[]string{room + "names", room + "policy", "cgroup", "internal/cli", "internal/flags", "internal/glob", "internal/similar", "internal/name", "internal/kernel/proc", room + "protocol"}, "the table of settings, and the files that have some; it is linked into the runner"},

	"internal/settings/raw":            {[]string{room + "page"}, "it runs where there is no Go runtime yet"},
	"internal/units":                   {[]string{room + "group", room + "names", "internal/host", "internal/programs", "internal/atomicfile", "internal/cli", "internal/containment", "internal/remedy", "internal/settings", "internal/kernel/proc", "internal/kernel/systemd"}, "files for systemd, and what it says of a service"},
	"internal/containment":             {[]string{room + "group", room + "names", "freeze", "internal/programs", "internal/name", room + "fleet", "internal/cli", "internal/gateway", "internal/kernel/proc", room + "protocol"}, "it looks at processes beside gateways, and asks no manager"},
	"internal/leaks":                   {[]string{room + "group", "freeze", "internal/cli", "internal/clientconfig", "internal/clientconfig/wrapping", "internal/gateway", "internal/programs", "internal/settings", "internal/kernel/linux", "internal/name", "internal/kernel/proc", "internal/parallel", "internal/selection", "internal/render", room + "client", room + "fleet", room + "sweep"}, "processes that clients have left, outside any group"},
	"internal/clientconfig/splice":     {nil, "bytes in, bytes out: it knows values and where they are, and not what they are for"},
	"internal/clientconfig/wrapping":   {[]string{"internal/name", "internal/clientconfig/splice"}, "what a wrapped server looks like, in any file; it does no I/O"},
	"internal/clientconfig/known":      {[]string{"internal/similar", "internal/clientconfig/splice", "internal/clientconfig/wrapping"}, "where clients have their files; it never looks into one"},
	"internal/clientconfig/configfile": {[]string{"internal/atomicfile"}, "nobody's work in a file is lost, whatever is in it"},
	"internal/selection":               {[]string{"internal/cli", "internal/similar", "internal/remedy", "internal/text", room + "fleet", room + "group"}, "which servers are meant; what is done to them is the caller's"},
	"internal/parallel":                {nil, "it calls a function, and knows nothing of it"},
	"internal/render":                  {[]string{"internal/parallel", room + "causes", room + "names", "internal/cli", "internal/figures", "internal/kernel/proc", room + "fleet", room + "protocol"}, "it measures servers and prints them, and does nothing to them"},
	"internal/render/top":              {[]string{"internal/cli", "internal/kernel/proc", "internal/selection", "internal/render", room + "fleet"}, "a view on a terminal"},
	"internal/logs":                    {[]string{room + "causes", room + "group", room + "journal", room + "names", "internal/programs", "internal/cli", "internal/remedy", "internal/selection", "internal/kernel/systemd", room + "protocol"}, "it reads the journal, and never writes to it"},
	"internal/doctor":                  {[]string{"internal/logs", room + "names", "internal/host", "internal/programs", "internal/cli", "internal/clientconfig", "internal/containment", "internal/gateway", "internal/leaks", "internal/name", "internal/selection", "internal/settings", "internal/units", "internal/kernel/proc", "internal/kernel/systemd", room + "fleet", room + "protocol"}, "the host, and what its files and processes have to do with servers"},
	"internal/metrics":                 {[]string{room + "causes", "internal/atomicfile", "internal/cli", "internal/containment", "internal/kernel/proc", "internal/logs", "internal/leaks", "internal/remedy", "internal/selection", "internal/render", "internal/units", room + "fleet", room + "group", room + "protocol"}, "figures, in the formats of Prometheus"},
	"internal/clientconfig":            {[]string{"internal/programs", "internal/cli", "internal/remedy", "internal/clientconfig/configfile", "internal/clientconfig/known", "internal/clientconfig/splice", "internal/clientconfig/wrapping", "internal/settings", "internal/kernel/proc"}, "files of clients: it starts none of their servers"},
	"internal/manual":                  {[]string{"internal/cli", "internal/settings"}, "it writes pages of words that others have"},
	"internal/detach":                  {[]string{"internal/programs", "internal/cli", "internal/remedy", room + "backend"}, "what it starts is no server"},
	"cmd/mcpscopectl":                  {[]string{"*"}, "flags, a call and output: what commands do is elsewhere"},
	"cmd/mcpscope":                     {[]string{room + "names", "internal/host", "internal/programs", "internal/cli", "internal/gateway", "internal/name", "internal/kernel/linux", "internal/kernel/proc", "internal/settings", "internal/settings/raw", room + "admission", room + "backend", room + "helper", room + "guard", room + "launcher", room + "page", room + "policy", room + "protocol", room + "report"}, "the runner: it stands beside every server"},
}

// library is a module of others, or a part of one, and why it is used.
type library struct{ path, reason string }

// foreign are the libraries that a package may use. Those that the runner links are in
// programs_test.go.
var foreign = map[string][]library{
	"internal/kernel/systemd": {
		{"github.com/godbus/", "D-Bus"},
		{"github.com/coreos/go-systemd/", "the properties of units"},
	},
	"internal/settings": {
		{"github.com/pelletier/go-toml/v2", "what is TOML; its parser of expressions, too, which has the lines of values"},
	},
	"internal/clientconfig/splice": {
		{"github.com/tailscale/hujson", "JSON with comments"},
		{"github.com/pelletier/go-toml/v2", "TOML, with the place of each value"},
		{"go.yaml.in/yaml/v3", "YAML, with the place of each value"},
	},
	"internal/figures": {{"github.com/containerd/cgroups/v3/cgroup2", "what the kernel counts for a group"}},
	"internal/render":  {{"github.com/charmbracelet/x/ansi", "how many cells of a terminal a text takes"}},
	"internal/render/top": {
		{"charm.land/bubbletea/v2", "a full screen, and keys"},
		{"charm.land/bubbles/v2", "a line that is typed, and pages that scroll"},
	},
	"internal/metrics": {
		{"github.com/prometheus/client_golang", "collector, and the handler that scrapers ask"},
		{"github.com/prometheus/common/expfmt", "the text formats"},
	},
	"internal/manual": {
		{"github.com/spf13/cobra", "pages of commands"},
		{"github.com/spf13/pflag", "their flags"},
		{"github.com/cpuguy83/go-md2man/v2/md2man", "it makes man pages of Markdown"},
	},
	tool: {
		{"github.com/rogpeppe/go-internal/diff", "wrap --dry-run"},
		{"github.com/spf13/cobra", "commands, completions and helps"},
		{"github.com/spf13/pflag", "cobra's flags"},
	},
}

// helpers are packages that serve tests. Of our packages they may import these only.
var helpers = map[string]rule{
	"tools/ablation":    {[]string{"test/escape"}, "it changes the product's sources, so it is built without them"},
	"test/agents":       {[]string{"test/escape"}, "agents are the same on every host"},
	"test/bed":          {[]string{"test/pace"}, "what checks a kill must not share the code that kills"},
	"test/facts":        {[]string{"internal/server/protocol"}, "it writes facts as the product does"},
	"test/groups":       {[]string{"cgroup", "test/bed"}, "directories for tests of what has its own"},
	"test/host":         {[]string{"test/bed", "test/pace"}, "it gives tests a kind of host, and knows nothing of the product"},
	"test/escape":       {[]string{"test/bed", "test/pace"}, "the table is the same on every host, and knows the product from outside alone"},
	"test/message":      {nil, "what a command tells is read as a person reads it"},
	"test/operate":      {[]string{"test/bed", "test/escape", "test/pace", "test/tmux", "test/transparent"}, "what operators do is the same on every host"},
	"test/registry":     {nil, "npm has a registry on every host"},
	"test/tmux":         {[]string{"test/escape", "test/pace"}, "a terminal, whatever runs on it"},
	"test/unprivileged": {nil, "any test may run without the rights of root"},
	"test/transparent":  {[]string{"test/bed", "test/escape", "test/pace"}, "what a server can tell is asked of it, on every host, and not of the product"},
}

// people are packages that only the tool links, and that may run programs: no server is beside them.
var people = []string{tool, "internal/clientconfig", "internal/detach", "internal/doctor", "internal/leaks", "internal/logs", "internal/metrics", "internal/units"}

// forbidden are packages of the standard library that no library of ours may import.
var forbidden = map[string]string{
	"log":      "libraries never log, and run's stderr is the server's",
	"log/slog": "libraries never log, and run's stderr is the server's",
	"os/exec":  "processes get descriptors by number, and environments as they are: syscall.ForkExec",
}

type pkg struct {
	ImportPath, Name, Dir, Doc string
	GoFiles, Imports           []string
	TestGoFiles, XTestGoFiles  []string
}

func (p pkg) own() string { return strings.TrimPrefix(p.ImportPath, module) }

// product reports that a package is neither for tests nor for making packages or the demo.
func (p pkg) product() bool {
	name := p.own()
	return !strings.HasPrefix(name, "test/") && !strings.HasPrefix(name, "tools/") && !strings.HasPrefix(name, "packaging/") && !strings.HasPrefix(name, "demo")
}

func goList(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Env = append(cmd.Environ(), "GOOS=linux", "CGO_ENABLED=0") // as packages are built
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func list(t *testing.T) (all []pkg) {
	t.Helper()
	for d := json.NewDecoder(strings.NewReader(goList(t, "-json=ImportPath,Name,Dir,Doc,GoFiles,Imports,TestGoFiles,XTestGoFiles", "../../..."))); d.More(); {
		var p pkg
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

func TestImports(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range list(t) {
		name := p.own()
		seen[name] = true
		if !p.product() {
			checkOwn(t, name, helpers, p.Imports)
			continue
		}
		if _, known := rules[name]; !known {
			t.Errorf("%s has no rule: say here what it may import, and why", name)
		}
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

// checkOwn checks the imports of our packages by a package that has a rule.
func checkOwn(t *testing.T, name string, table map[string]rule, imports []string) {
	t.Helper()
	r, known := table[name]
	for _, imported := range imports {
		if own, ours := strings.CutPrefix(imported, module); known && ours && !slices.Contains(r.may, own) && !slices.Contains(r.may, "*") {
			t.Errorf("%s imports %s: %s", name, own, r.reason)
		}
	}
}

func check(t *testing.T, name, imported string) {
	t.Helper()
	if why := forbidden[imported]; why != "" && !slices.Contains(people, name) && !(name == "scope" && imported == "os/exec") {
		t.Errorf("%s imports %s: %s", name, imported, why)
	}
	switch {
	case strings.HasPrefix(imported, module): // checkOwn
	case slices.ContainsFunc(foreign[name], func(l library) bool { return strings.HasPrefix(imported, l.path) }):
	case strings.Contains(strings.Split(imported, "/")[0], ".") && !strings.HasPrefix(imported, "golang.org/x/sys/"):
		t.Errorf("%s imports %s, which is not in the table", name, imported)
	}
}

// public are the packages that programs of others may import; the compiler keeps them from the rest.
var public = []string{"cgroup", "freeze", "scope"}

// columnsMost is the width of a line of product code. A tab is four columns.
const columnsMost = 110

func checkWidth(t *testing.T, file, text string) {
	t.Helper()
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSuffix(line, "\n")
		if n := utf8.RuneCountInString(line) + 3*strings.Count(line, "\t"); n > columnsMost {
			t.Errorf("%s:%d has %d columns, more than %d", file, number, n, columnsMost)
		}
	}
}

// Each package of the product has a comment and readable lines, and is public only if it is on the list.
func TestHouse(t *testing.T) {
	for _, p := range list(t) {
		name := p.own()
		if !p.product() {
			continue
		}
		if p.Doc == "" {
			t.Errorf("%s has no package comment", name)
		}
		if !strings.Contains(name, "internal/") && p.Name != "main" && !slices.Contains(public, name) {
			t.Errorf("%s is public, and not on the list", name)
		}
		for _, base := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, base))
			if err != nil {
				t.Fatal(err)
			}
			checkWidth(t, name+"/"+base, string(text))
		}
	}
}

// skipForRoot is the beginning of a test that never runs in `make test`, which needs root.
var skipForRoot = regexp.MustCompile(`Gete?uid\(\) == 0 \{\s*\w+\.Skip`)

func TestNoTestSkipsForRoot(t *testing.T) {
	for _, p := range list(t) {
		for _, base := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
			text, err := os.ReadFile(filepath.Join(p.Dir, base))
			if err != nil {
				t.Fatal(err)
			}
			if skipForRoot.Match(text) {
				t.Errorf("%s/%s skips a test for root: use unprivileged.Run, so that make test runs it", p.own(), base)
			}
		}
	}
}

// Each source file names the license.
func TestLicenseIsNamed(t *testing.T) {
	if out, err := exec.Command("../../.ci/spdx", "--check").CombinedOutput(); err != nil {
		t.Errorf("these lack the line with the SPDX identifier; make spdx adds it:\n%s", out)
	}
}
