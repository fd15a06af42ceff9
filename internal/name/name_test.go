// SPDX-License-Identifier: Apache-2.0

package name

import (
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestCheck(t *testing.T) {
	for name, want := range map[string]string{
		"my weather, größer ✓ 🚀": "", "\ufffd": "", "a\u200db": "", strings.Repeat("x", MaxLen): "",
		"": "the name is empty", "\u00a0\u3000": "the name is empty",
		strings.Repeat("x", MaxLen+1): "the name has more than 4096 bytes",
		"ä\xc3":                       "the name is not UTF-8",
		"\xed\xa0\x80":                "the name is not UTF-8", // half a surrogate pair
		"ä\x1b[2J":                    "the name has characters that control a terminal",
		"a\u2028":                     "the name has characters that control a terminal",
		"ab\u202e":                    "the name has characters that control a terminal",
	} {
		got := ""
		if err := Check(name); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%.20q: got %q, want %q", name, got, want)
		}
	}
}

func TestDir(t *testing.T) {
	for _, tt := range []struct{ name, want string }{
		{"weather", "weather"},
		{"my weather", "my_weather"},
		{"größe", "gr__e"},
		{"a/../b", "a_.._b"},
		{"a  /  b", "a_____b"},
		{"a _ b", "a___b"},
		{"..", "server"},
		{".-.a-", "a-"},
		{"", "server"},
		{strings.Repeat("x", 49), strings.Repeat("x", 48)},
		{"-" + strings.Repeat("é", 49) + strings.Repeat("x", 99), strings.Repeat("_", 48)},
	} {
		if got := Dir(tt.name); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// FuzzCheck compares with the rules read one by one.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{"weather", "", " ", "a\xff", "\ufffd", "a\u202e", "\u2028", "a\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		want := name != "" && len(name) <= MaxLen && utf8.ValidString(name) &&
			!strings.ContainsFunc(name, unicode.IsControl) &&
			!strings.ContainsAny(name, "\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069") &&
			strings.TrimSpace(name) != ""
		if err := Check(name); (err == nil) != want {
			t.Fatalf("%q: %v", name, err)
		}
	})
}

func FuzzDir(f *testing.F) {
	for _, seed := range []string{"weather", "", "..", "-a b", "größe", "\xff", strings.Repeat("x", 99)} {
		f.Add(seed)
	}
	shape := regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
	f.Fuzz(func(t *testing.T, name string) {
		dir := Dir(name)
		if !shape.MatchString(dir) || len(dir) > maxDir {
			t.Fatalf("%q became %q", name, dir)
		}
		if again := Dir(dir); again != dir {
			t.Fatalf("%q became %q, then %q", name, dir, again)
		}
		if err := Check(dir); err != nil {
			t.Fatal(err)
		}
	})
}

// derived are command lines, split at blanks ("·" is a blank within a word), and their names. The word
// "secret" is where keys and tokens are.
var derived = map[string]string{
	"npx -y @modelcontextprotocol/server-filesystem@1.2 /home/me": "server-filesystem",
	"npx --package @s/p cmd":                           "cmd",
	"npx -y --package=@s/p@1.0":                        "p",
	"npx --registry https://user:secret@r.example pkg": "pkg",
	"npx -y github:user/weather#semver:^1":             "weather",
	"npx -c secret":                                    "npx",
	"deno run npm:a":                                   "a",
	"npx -y mcp-remote https://host/sse?token=secret":  "mcp-remote",
	"npx -y @playwright/mcp@latest":                    "playwright",
	"npx -y":                                           "npx",
	"/usr/local/bin/npx -y pkg":                        "pkg",
	"npm exec -- pkg":                                  "pkg",
	"pnpm dlx @s/pkg@1.2.3":                            "pkg",
	"bunx --bun @s/pkg":                                "pkg",
	"bun x @s/pkg":                                     "pkg",
	"bun run --hot /x/weather/src/index.ts":            "weather",
	"bun -e code":                                      "bun",
	"deno run -A npm:@s/pkg@^1.2/bin":                  "pkg",
	"deno run --allow-net=host --allow-read /x/weather/main.ts": "weather",
	"deno run https://secret@host/mod.ts":                       "host",
	"uvx foo":                                                   "foo",
	"uvx --from pkg foo":                                        "foo",
	"uvx foo@latest --port 1":                                   "foo",
	"uvx foo[a,b]==1.2":                                         "foo",
	"uvx --python 3.12 --with a --with=b foo":                   "foo",
	"uvx git+https://user:secret@github.com/user/foo.git@v1.2":  "foo",
	"uvx":               "uvx",
	"uv tool run foo@1": "foo",
	"uv --directory /x/weather run weather-mcp":       "weather-mcp",
	"uv run server.py":                                "server",
	"bash /opt/weather.sh":                            "weather",
	"sh -c secret":                                    "sh",
	"docker exec -it -e A=secret name cmd":            "docker",
	"uv run python -m a.b":                            "a.b",
	"pipx run foo==1":                                 "foo",
	"python3 -u -m weather --port 1":                  "weather",
	"python3 /x/weather/src/server.py":                "weather",
	"python /home/bob/server.py":                      "server",
	"python -c import·secret":                         "python",
	"python":                                          "python",
	"node weather.js":                                 "weather",
	"node node_modules/@scope/pkg/dist/index.js":      "pkg",
	"node /a/node_modules/.bin/mcp-server-memory":     "mcp-server-memory",
	"node --inspect --max-old-space-size=9 a.mjs":     "a",
	"node -e code":                                    "node",
	"/usr/bin/node22 weather.js":                      "weather",
	"docker run -i --rm mcp/github":                   "github",
	"docker run --rm -ieTOKEN=secret foo":             "foo",
	"docker run -p 80:80 -v /a:/b foo --entrypoint x": "foo",
	"docker run --unknown secret --pull always foo":   "foo",
	"docker run registry:5000/team/foo:1@sha256:abc":  "foo",
	"docker compose -f c.yml run -T -e A=secret svc":  "svc",
	"docker": "docker",
	"podman run --rm --replace docker://quay.io/t/a:1": "a",
	"env -i -u X A=secret B=/c/d weather":              "weather",
	"sudo -nEu x A=secret npx foo":                     "foo",
	"/usr/bin/github-mcp-server stdio":                 "github-mcp-server",
	"größe":                                            "größe",
	"/":                                                "server",
}

func argv(line string) []string {
	all := strings.Fields(line)
	for i := range all {
		all[i] = strings.ReplaceAll(all[i], "·", " ")
	}
	return all
}

func TestDerive(t *testing.T) {
	for line, want := range derived {
		if got := Derive(argv(line)); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

func FuzzDerive(f *testing.F) {
	for line := range derived {
		f.Add(strings.Join(argv(line), "\x00"))
	}
	for _, odd := range []string{"", " \t ", "npx\x00\x00", "node\x00we\x1b[2Jath\ner.js",
		"wea\xffther\xc3", "\u202ereh\u2066\u2028", strings.Repeat("ä", 100),
		"sh\x00-c\x00" + strings.Repeat("exec ", 1000) + "npx foo"} {
		f.Add(odd)
	}
	f.Fuzz(func(t *testing.T, line string) {
		argv := strings.Split(line, "\x00")
		got := Derive(argv)
		if err := Check(got); err != nil {
			t.Fatalf("%q: %v", got, err)
		}
		if len(got) > maxMade || strings.TrimSpace(got) != got || !utf8.ValidString(got) {
			t.Fatalf("not fit for a table: %q", got)
		}
		if again := Derive(argv); again != got || strings.Join(argv, "\x00") != line {
			t.Fatalf("got %q, then %q from %q", got, again, argv)
		}
	})
}

// The arguments behind "run" get the label; those before it select the engine.
func TestContainerOf(t *testing.T) {
	const sep = " | " // between arguments
	for argv, want := range map[string]string{
		"docker | run | -i | image":                       "docker | run | --label | a=b | -i | image => docker | ps",
		"sudo | -n | podman | --root | /x | run | image":  "sudo | -n | podman | --root | /x | run | --label | a=b | image => sudo | -n | podman | --root | /x | ps",
		"timeout | 5 | docker | compose | run | --rm | s": "timeout | 5 | docker | compose | run | --label | a=b | --rm | s => timeout | 5 | docker | ps",
		"sh | -c | docker run image":                      "",
		"docker | exec | -i | container | server":         "",
		"echo | docker | run":                             "",
		"docker":                                          "",
		"":                                                "",
	} {
		words := strings.Split(argv, sep)
		got := ""
		if c := ContainerOf(words); c != nil {
			got = strings.Join(c.With("--label", "a=b"), sep) + " => " + strings.Join(c.Asked("ps"), sep)
		}
		if got != want || strings.Join(words, sep) != argv {
			t.Errorf("%s:\n\t%s\nwant\n\t%s", argv, got, want)
		}
	}
}

// Whatever a command line is, a label is all that it gets, and nothing of it is lost.
func FuzzContainerOf(f *testing.F) {
	f.Add("sudo\x00docker\x00-H\x00x\x00run\x00image")
	f.Fuzz(func(t *testing.T, line string) {
		argv := strings.Split(line, "\x00")
		c := ContainerOf(argv)
		if c == nil {
			return
		}
		labelled := strings.Join(c.With("--label", "a=b"), "\x00")
		bare := strings.Replace(labelled, "\x00--label\x00a=b", "", 1)
		if len(labelled)-len(line) != len(" --label a=b") || !strings.Contains(line, "--label") && bare != line {
			t.Errorf("%q became %q", line, labelled)
		}
		if asked := c.Asked("ps"); len(asked) < 2 || asked[len(asked)-1] != "ps" {
			t.Errorf("%q asks by %q", line, asked)
		}
	})
}

// A launcher is known by the program and its command, under both names and any path.
func TestIsRun(t *testing.T) {
	for line, want := range map[string]bool{
		"mcpscope run": true, "/usr/bin/mcpscope run -- git": true, "mcpscopectl run -- git": true,
		"mcpscope gateway -- git": false, "mcpscope": false, "": false, "docker run git": false,
	} {
		if got := IsRun(strings.Fields(line)); got != want {
			t.Errorf("%q: %t", line, got)
		}
	}
}

func TestMCP(t *testing.T) {
	for line, want := range map[string]string{
		"uvx mcp-server-time":          "mcp-server-time",
		"/opt/github-mcp-server stdio": "github-mcp-server",
		"python3 -m mcp_server_git":    "mcp_server_git",
		"node /x/node_modules/@modelcontextprotocol/server-memory/dist/index.js": "server-memory",
		"npx @modelcontextprotocol/server-memory":                                "server-memory",
		"grep @modelcontextprotocol/server-memory":                               "",
		"node /x/worker.js":          "",
		"/usr/bin/tomcpal":           "",
		"claude --mcp-config x.json": "",
		"":                           "",
	} {
		if got := MCP(argv(line)); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// A program behind a shell is named, not the shell, unless the name could be a secret.
func TestDeriveFromAScript(t *testing.T) {
	for script, want := range map[string]string{
		"node /opt/gw/plain.js":                 "plain",
		"cd /opt/gw && exec node 'plain.js' x":  "plain",
		"KEY=secret npx -y @x/time-mcp --token": "time-mcp",
		"env KEY=secret uvx weather":            "weather",
		"secret":                                "sh",
		"printf secret":                         "sh",
		"node":                                  "sh",
		"cd /opt/gw; exec python3 notes.py":     "notes",
		"cd /opt/gw; A=b exec python3 notes.py": "notes",
		"cd /opt/gw\nexec node plain.js 2>&1":   "plain",
		"node plain.js &>/var/log/plain.log":    "plain",
		"exec 2>&1; secret":                     "sh",
		"KEY=a>&secret secret":                  "sh",
		"sh -c 'node plain.js'":                 "sh",
		"":                                      "sh",
	} {
		argv := []string{"/bin/sh", "-c", script}
		if got := Derive(argv); got != want {
			t.Errorf("%q: %q, want %q", script, got, want)
		}
		if got := MCP(argv); got != "" {
			t.Errorf("%q is named as a server: %q", script, got)
		}
	}
}
