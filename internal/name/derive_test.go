// SPDX-License-Identifier: Apache-2.0

package name

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// derived are command lines, split at blanks ("·" is a blank within a word), and their names. The word "secret"
// is where keys and tokens are.
var derived = map[string]string{
	"npx -y @modelcontextprotocol/server-filesystem@1.2 /home/me": "server-filesystem",
	"npx --package @s/p cmd":                                    "cmd",
	"npx -y --package=@s/p@1.0":                                 "p",
	"npx --registry https://user:secret@r.example pkg":          "pkg",
	"npx -y github:user/weather#semver:^1":                      "weather",
	"npx -y mcp-remote https://host/sse?token=secret":           "mcp-remote",
	"npx -y @playwright/mcp@latest":                             "playwright",
	"npx -y":                                                    "npx",
	"/usr/local/bin/npx -y pkg":                                 "pkg",
	"npm exec -- pkg":                                           "pkg",
	"pnpm dlx @s/pkg@1.2.3":                                     "pkg",
	"bunx --bun @s/pkg":                                         "pkg",
	"bun x @s/pkg":                                              "pkg",
	"bun run --hot /x/weather/src/index.ts":                     "weather",
	"bun -e code":                                               "bun",
	"deno run -A npm:@s/pkg@^1.2/bin":                           "pkg",
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
	"uv --directory /x/weather run server.py":         "weather",
	"uv run python -m a.b":                            "a.b",
	"uv sync":                                         "uv",
	"pipx run foo==1":                                 "foo",
	"pipx install foo":                                "pipx",
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
	"node.exe weather.js":                             "weather",
	"docker run -i --rm mcp/github":                   "github",
	"docker run --rm -ieTOKEN=secret foo":             "foo",
	"docker run -p 80:80 -v /a:/b foo --entrypoint x": "foo",
	"docker run --unknown secret --pull always foo":   "foo",
	"docker run registry:5000/team/foo:1@sha256:abc":  "foo",
	"docker exec -it -e A=b -w /x name cmd":           "name",
	"docker compose -f c.yml run -T -e A=secret svc":  "svc",
	"docker": "docker",
	"podman run --rm --replace docker://quay.io/t/a:1": "a",
	"env -i -u X A=secret B=/c/d weather":              "weather",
	"sudo -nEu x A=secret npx foo":                     "foo",
	"sh -c cd·/x/weather·&&·node·dist/index.js":        "weather",
	"bash -lc TOKEN=secret·uvx·foo==1":                 "foo",
	"go run github.com/x/foo/v2@v2.1.0 -flag":          "foo",
	"java -Da=b -jar /x/foo.jar --x":                   "foo",
	"mcpscope run --unknown secret -- uvx foo":         "foo",
	"mcpscope run --name weather -- npx foo":           "weather",
	"/usr/bin/github-mcp-server stdio":                 "github-mcp-server",
	"/opt/weather/1.4.2/bin/start":                     "weather",
	`C:\x\Weather.EXE`:                                 "Weather",
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

func TestDeriveFromAnything(t *testing.T) {
	long := strings.Repeat("ä", 100)
	for want, argv := range map[string][]string{
		"server":                  {" \t "},
		"npx":                     {"npx", "", ""},
		"we[2Jather":              {"node", "we\x1b[2Jath\ner.js"},
		"uvx":                     {"uvx", "\x01\x02"},
		"weather":                 {"wea\xffther\xc3"},
		"rehtaew":                 {"\u202erehtaew\u2066\u2028"},
		long[:maxDerived]:         {long},
		"a" + long[:maxDerived-2]: {"a" + long},
		"exec":                    {"sh", "-c", strings.Repeat("exec ", 1000) + "npx foo"},
	} {
		if got := Derive(argv); got != want {
			t.Errorf("%.40q: %q, want %q", argv, got, want)
		}
	}
	if got := Derive(nil); got != "server" {
		t.Errorf("of nothing: %q", got)
	}
}

func FuzzDerive(f *testing.F) {
	for line := range derived {
		f.Add(strings.Join(argv(line), "\x00"))
	}
	f.Fuzz(func(t *testing.T, line string) {
		argv := strings.Split(line, "\x00")
		got := Derive(argv)
		if err := Check(got); err != nil {
			t.Fatalf("%q: %v", got, err)
		}
		if len(got) > maxDerived || strings.TrimSpace(got) != got || !utf8.ValidString(got) {
			t.Fatalf("not fit for a table: %q", got)
		}
		if again := Derive(argv); again != got || strings.Join(argv, "\x00") != line {
			t.Fatalf("got %q, then %q from %q", got, again, argv)
		}
	})
}
