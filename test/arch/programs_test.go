// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"strings"
	"testing"
)

// The two programs.
const (
	runner = "cmd/mcpscope"
	tool   = "cmd/mcpscopectl"
)

// linked is every package that the runner links, with the reason: our package that needs it, or the
// other package that brings it along. Each costs every server twice, in memory and at its start. The
// standard library's inside (internal/…, runtime/…) is in every program, and has no rows.
var linked = map[string]string{
	"cgroup":                  "the group, and its limits",
	"freeze":                  "the ladder that ends it, and the backend without a group",
	room + "launcher":         "what the client has started",
	room + "helper":           "what it is while the server runs",
	room + "backend":          "where the group comes from",
	room + "group":            "what it is",
	room + "idle":             "when it is frozen",
	room + "client":           "what the client does",
	room + "container":        "a server may run in one",
	"internal/kernel/loop":    "one wait for everything",
	room + "orphan":           "a start finds orphans",
	room + "sweep":            "every start ends orphans",
	room + "admission":        "--min-free",
	room + "fleet":            "--replace looks for older servers",
	"internal/parallel":       "the same",
	room + "report":           "the line that whoever asks for it reads at the end",
	room + "protocol":         "policy, causes, names",
	"internal/cli":            "how failures read",
	"internal/remedy":         "the next step after a failure",
	"internal/text":           "names are of others, and are printed",
	room + "names":            "groups and processes have names",
	room + "policy":           "the times of a stop",
	room + "decide":           "the end of a server without a helper",
	room + "roof":             "which manager keeps what a client keeps",
	room + "causes":           "why a server is stopped",
	room + "journal":          "starts and ends are logged",
	"internal/host":           "the next step where there is no backend",
	"internal/programs":       "the tool beside the runner, and the command of a server",
	"internal/kernel/linux":   "one wait for everything; signals are passed on",
	room + "guard":            "the server is born below a guard",
	room + "page":             "what launcher and guard share",
	"internal/name":           "a server without --name gets one from its command",
	"internal/kernel/proc":    "who is who",
	"internal/gateway":        "the process that becomes a gateway, and the watcher beside it",
	"internal/gateway/mcp":    "what a server is recognized by",
	"internal/gateway/notify": "programs are held until they are judged",
	"internal/glob":           "--match, --except and --keep",
	"internal/flags":          "the flags of a command line",
	"internal/similar":        "the flag that may be meant",
	"internal/settings/raw":   "the same before the Go runtime",
	"internal/settings":       "flags, variables and keys, and mcpscope.toml",
	"internal/kernel/systemd": "scopes, and the journal",

	"golang.org/x/sys/unix":                                 "system calls",
	"github.com/coreos/go-systemd/v22/dbus":                 "scopes: properties of units",
	"github.com/godbus/dbus/v5":                             "scopes: the bus",
	"github.com/pelletier/go-toml/v2":                       "whether mcpscope.toml is TOML: what may be defined only once",
	"github.com/pelletier/go-toml/v2/internal/tracker":      "go-toml",
	"github.com/pelletier/go-toml/v2/unstable":              "the lines of its values, which the decoder does not report",
	"github.com/pelletier/go-toml/v2/internal/parserbridge": "go-toml",

	"bufio": "godbus", "bytes": "everything", "cmp": "everything", "context": "godbus",
	"encoding": "encoding/json", "encoding/base64": "encoding/json", "encoding/json": "messages of MCP, and the report", "unicode/utf16": "encoding/json",
	"encoding/binary": "the configuration on the page", "encoding/hex": "godbus", "errors": "everything",
	"hash": "hash/fnv", "hash/fnv": "two servers of a gateway are started the same way", "maps": "the variables of one in order",
	"fmt": "everything", "io": "everything", "io/fs": "os", "iter": "slices", "log": "go-systemd", "math": "fmt", "math/bits": "runtime", "math/rand/v2": "ids", "net": "godbus",
	"net/netip": "net", "net/url": "godbus", "os": "everything", "os/exec": "godbus", "os/user": "godbus", "path": "config",
	"path/filepath": "config", "reflect": "fmt", "slices": "everything", "sort": "godbus", "strconv": "everything", "strings": "everything", "sync": "everything",
	"sync/atomic": "sync", "syscall": "os", "time": "everything", "unicode": "what may be printed", "unicode/utf8": "everything",
	"unique": "net/netip", "unsafe": "system calls", "weak": "unique",
}

// The runner links what is on its list, and nothing else.
func TestRunnerLinks(t *testing.T) {
	all := strings.Fields(goList(t, "-deps", "../../"+runner))
	found := map[string]bool{}
	for _, p := range all {
		own, ours := strings.CutPrefix(p, module)
		found[own] = true
		if own != runner && linked[own] == "" && (ours || !inside(p)) {
			t.Errorf("the runner links %s, which is not on its list: it costs every server twice", own)
		}
	}
	for p := range linked {
		if !found[p] {
			t.Errorf("%s is on the runner's list, which does not link it", p)
		}
	}
}

// inside has the standard library's own packages. Those of encoding/json exist since Go 1.27.
func inside(p string) bool {
	if strings.HasPrefix(p, "encoding/json/") || p == "encoding/base32" {
		return true
	}
	first, _, _ := strings.Cut(p, "/")
	return first == "internal" || first == "vendor" || first == "runtime" || p == "log/internal"
}
