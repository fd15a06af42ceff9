// SPDX-License-Identifier: Apache-2.0

package name

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// row is a command line as one would type it, split at blanks ("·" stands for
// a blank within a word and "¶" for a newline), and its name.
type row struct{ line, want string }

func (r row) argv() []string {
	words := strings.Fields(r.line)
	for i := range words {
		words[i] = strings.NewReplacer("·", " ", "¶", "\n").Replace(words[i])
	}
	return words
}

var groups = map[string][]row{
	"npm": {
		{"npx -y @modelcontextprotocol/server-filesystem@1.2 /home/me", "server-filesystem"},
		{"npx -y @scope/pkg", "pkg"},
		{"npx pkg@latest --flag", "pkg"},
		{"npx --yes --package=@s/p cmd", "cmd"},
		{"npx --package @s/p cmd", "cmd"},
		{"npx -p @s/p -p q cmd --x", "cmd"},
		{"npx -y --package=@s/p@1.0", "p"},
		{"npx -yq pkg", "pkg"},
		{"npx -y -- pkg", "pkg"},
		{"npx --registry https://user:secret@r.example pkg", "pkg"},
		{"npx -c weather·--port·1", "weather"},
		{"npx -y github:user/weather#semver:^1", "weather"},
		{"npx user/weather", "weather"},
		{"npx git+ssh://git@github.com/user/weather.git#main", "weather"},
		{"npx git@github.com:user/weather.git", "weather"},
		{"npx https://user:secret@host/user/weather", "weather"},
		{"npx ./packages/weather", "weather"},
		{"npx alias@npm:@s/p@1", "alias"},
		{"npx -y mcp-remote https://host/sse?token=secret", "mcp-remote"},
		{"npx -y @playwright/mcp@latest", "playwright"},
		{"npx mcp", "mcp"},
		{"npx tsx /x/weather/src/index.ts", "weather"},
		{"npx -y tsx@4 watch weather.ts", "weather"},
		{"npx", "npx"},
		{"npx -y", "npx"},
		{"/usr/local/bin/npx -y pkg", "pkg"},
		{`C:\Program·Files\nodejs\npx.cmd -y pkg`, "pkg"},
		{"npm exec -- pkg", "pkg"},
		{"npm exec -y @s/p@2 -- --flag", "p"},
		{"npm x --package=@s/p -- cmd", "cmd"},
		{"npm --prefix /x/weather start", "weather"},
		{"npm run --prefix /x/weather start", "weather"},
		{"npm run weather", "weather"},
		{"npm", "npm"},
		{"pnpm dlx @s/pkg@1.2.3", "pkg"},
		{"pnpm --package=@s/p dlx cmd", "cmd"},
		{"pnpm -C /x/weather start", "weather"},
		{"pnpm exec weather", "weather"},
		{"yarn dlx pkg@1", "pkg"},
		{"yarn dlx -p @s/p cmd", "cmd"},
		{"yarn --cwd /x/weather run start", "weather"},
		{"yarn weather", "weather"},
		{"pnpx pkg", "pkg"},
		{"dnx Contoso.Weather@1.0.0 --yes", "Contoso.Weather"},
	},
	"bun and deno": {
		{"bunx pkg@1.2", "pkg"},
		{"bunx --bun @s/pkg", "pkg"},
		{"bun x @s/pkg", "pkg"},
		{"bun run weather.ts", "weather"},
		{"bun run --hot /x/weather/src/index.ts", "weather"},
		{"bun run --cwd /x/weather src/index.ts", "weather"},
		{"bun weather.js", "weather"},
		{"bun -e code", "bun"},
		{"deno run -A weather.ts", "weather"},
		{"deno run --allow-net=host --allow-read /x/weather/main.ts", "weather"},
		{"deno run -A npm:pkg@1", "pkg"},
		{"deno run -A npm:@s/pkg@^1.2/bin", "pkg"},
		{"deno run jsr:@s/p", "p"},
		{"deno run -A --config deno.json https://user:secret@deno.land/x/weather@v1/mod.ts?token=secret", "weather"},
		{"deno run https://secret@host/mod.ts", "host"},
		{"deno task weather", "weather"},
		{"deno weather.ts", "weather"},
	},
	"uv": {
		{"uvx foo", "foo"},
		{"uvx --from pkg foo", "foo"},
		{"uvx --from pkg==1", "pkg"},
		{"uvx foo@1.2", "foo"},
		{"uvx foo@latest --port 1", "foo"},
		{"uvx foo==1.2", "foo"},
		{"uvx foo>=1,<2", "foo"},
		{"uvx foo~=1.2", "foo"},
		{"uvx foo[extra]", "foo"},
		{"uvx foo[a,b]==1.2", "foo"},
		{"uvx git+https://github.com/user/foo.git", "foo"},
		{"uvx git+https://user:secret@github.com/user/foo.git@v1.2#subdirectory=x", "foo"},
		{"uvx git+https://github.com/user/foo@feature/x", "foo"},
		{"uvx --from git+https://github.com/user/repo foo", "foo"},
		{"uvx --from git+https://github.com/user/repo.git", "repo"},
		{"uvx foo·@·git+https://github.com/user/repo", "foo"},
		{"uvx --python 3.12 --with a --with=b foo", "foo"},
		{"uvx -p 3.12 foo", "foo"},
		{"uvx -c constraints.txt foo", "foo"},
		{"uvx mcp run weather.py", "weather"},
		{"uvx ./foo", "foo"},
		{"uvx", "uvx"},
		{"uv tool run foo@1", "foo"},
		{"uv tool run --from a foo", "foo"},
		{"uv run foo", "foo"},
		{"uv run foo.py", "foo"},
		{"uv run --directory D foo.py", "foo"},
		{"uv --directory D run x", "x"},
		{"uv --directory /x/weather run server.py", "weather"},
		{"uv --directory /x/weather run server", "weather"},
		{"uv run --project /x/weather server.py", "weather"},
		{"uv --directory=/x/weather run main.py", "weather"},
		{"uv run --with mcp[cli] mcp run /x/weather/server.py", "weather"},
		{"uv run --with fastmcp fastmcp run weather.py:app", "weather"},
		{"uv run -m a.b", "a.b"},
		{"uv run python -m a.b", "a.b"},
		{"uv run -- weather --flag", "weather"},
		{"uv run --env-file .env --extra x weather", "weather"},
		{"uv run https://host/weather.py", "weather"},
		{"uv run", "uv"},
		{"uv run -", "uv"},
		{"uv sync", "uv"},
		{"pipx run foo==1", "foo"},
		{"pipx run --spec git+https://h/u/repo foo", "foo"},
		{"pipx install foo", "pipx"},
	},
	"Python": {
		{"python -m a.b", "a.b"},
		{"python3 -u -m weather --port 1", "weather"},
		{"python3.12 -mweather", "weather"},
		{"python -Bum weather", "weather"},
		{"python3 /x/server.py", "x"},
		{"python3 /x/weather.py -m other", "weather"},
		{"python3 /x/weather/src/server.py", "weather"},
		{"python /srv/weather/current/app.py", "weather"},
		{"/x/.venv/bin/python /x/weather/__main__.py", "weather"},
		{"python -W ignore -X dev weather.py", "weather"},
		{"python -- weather.py", "weather"},
		{"python server.py", "server"},
		{"python /server.py", "server"},
		{"python /home/bob/server.py", "server"},
		{"python /app/server.py", "server"},
		{"python ../weather/server.py", "weather"},
		{"python /x/weather/../time/server.py", "time"},
		{"python ${HOME}/weather/server.py", "weather"},
		{"python $SERVER", "python"},
		{"python weather.pyz", "weather"},
		{"python -c import·secret", "python"},
		{"python -", "python"},
		{"python", "python"},
		{`py -3.12 C:\x\weather\server.py`, "weather"},
		{"mcp run /x/weather/server.py:app", "weather"},
		{"mcp version", "mcp"},
		{"poetry -C /x/weather run server", "weather"},
		{"poetry run weather", "weather"},
		{"poetry install", "poetry"},
		{"conda run -n env --no-capture-output python weather.py", "weather"},
		{"pipenv run python -m weather", "weather"},
	},
	"Node": {
		{"node weather.js", "weather"},
		{"node /y/x/dist/index.js", "x"},
		{"node node_modules/@scope/pkg/dist/index.js", "pkg"},
		{"node node_modules/@scope/mcp/cli.js", "scope"},
		{"node /opt/lib/node_modules/n8n-mcp/dist/mcp/stdio-wrapper.js", "n8n-mcp"},
		{"node /a/node_modules/.pnpm/x@1/node_modules/@scope/files/dist/entry.js", "files"},
		{"node /a/node_modules/.bin/mcp-server-memory", "mcp-server-memory"},
		{"node /a/node_modules/.pnpm/weather@1.2/dist/index.js", "weather"},
		{"node --inspect --max-old-space-size=99 weather.mjs", "weather"},
		{"node -r dotenv/config --import tsx weather.ts", "weather"},
		{"node --env-file .env weather.cjs", "weather"},
		{"node index.js", "index"},
		{"node -e code", "node"},
		{"node -pe code weather.js", "node"},
		{"node", "node"},
		{"node.exe weather.js", "weather"},
		{"tsx watch src/weather.ts", "weather"},
		{"ts-node -P tsconfig.json weather.ts", "weather"},
	},
	"containers": {
		{"docker run -i --rm mcp/github", "github"},
		{"docker run -i --rm -e TOKEN=secret -e OTHER ghcr.io/github/github-mcp-server:v1", "github-mcp-server"},
		{"docker run --rm -ieTOKEN=secret foo", "foo"},
		{"docker run --env-file .env --name x --network host --mount type=bind,src=/a,dst=/b foo:1.2", "foo"},
		{"docker run -p 80:80 -v /a:/b -w /w -u 0 -l a=b -m 1g foo --entrypoint x", "foo"},
		{"docker run -itp 80:80 foo", "foo"},
		{"docker run --entrypoint=sh --platform=linux/amd64 --cpus 2 --memory=1g foo -c x", "foo"},
		{"docker run --unknown secret --pull always foo", "foo"},
		{"docker run --no-healthcheck --init --privileged foo", "foo"},
		{"docker run registry:5000/team/foo:1.2@sha256:abc", "foo"},
		{"docker run foo@sha256:abc", "foo"},
		{"docker run localhost/team/server:1", "team"},
		{"docker run ghcr.io/acme/mcp-server", "acme"},
		{"docker run server", "server"},
		{"docker --context c -H tcp://h container run foo", "foo"},
		{"docker exec -i name cmd", "name"},
		{"docker exec -it -e A=b -w /x name cmd", "name"},
		{"docker start -ai name", "name"},
		{"docker compose run svc", "svc"},
		{"docker compose -f c.yml run --rm -T -e A=secret svc cmd", "svc"},
		{"docker-compose --project-directory /x exec -T svc cmd", "svc"},
		{"docker compose up", "docker"},
		{"docker run", "docker"},
		{"docker run -e", "docker"},
		{"docker", "docker"},
		{"podman run --rm --replace docker://quay.io/team/foo:1", "foo"},
		{"nerdctl -n ns run foo", "foo"},
	},
	"prefixes": {
		{"env A=B npx -y foo", "foo"},
		{"env -i -u X A=secret B=/c/d weather", "weather"},
		{"env -S npx·-y·foo --bar", "foo"},
		{"env -C /x/weather python server.py", "weather"},
		{"/usr/bin/env node weather.js", "weather"},
		{"env TOKEN=secret", "env"},
		{"nice -n 5 weather", "weather"},
		{"nice -5 weather", "weather"},
		{"timeout 5 weather", "weather"},
		{"timeout -k 1 --signal=INT 5s uvx foo", "foo"},
		{"stdbuf -oL weather", "weather"},
		{"stdbuf -o L -e0 weather", "weather"},
		{"sudo -u x weather", "weather"},
		{"sudo -nEu x A=secret npx foo", "foo"},
		{"exec -a other weather", "weather"},
		{"nohup setsid weather", "weather"},
		{"time -f x weather", "weather"},
		{"taskset -c 0-3 weather", "weather"},
		{"ionice -c 2 -n 0 nice weather", "weather"},
		{"tini -s -- npx foo", "foo"},
		{"gosu nobody weather", "weather"},
		{"systemd-run --user --scope -p MemoryMax=1G uvx foo", "foo"},
		{"xvfb-run -a npx foo", "foo"},
		{"op run --env-file=.env --unknown secret -- npx foo", "foo"},
		{"doppler run --token secret -- weather", "weather"},
		{"mise x node@20 -- npx foo", "foo"},
		{"direnv exec . weather", "weather"},
		{"bundle exec ruby weather.rb", "weather"},
		{"cmd /c npx -y foo", "foo"},
		{"wsl.exe -d Ubuntu npx foo", "foo"},
		{"sudo", "sudo"},
		{"sudo -u x python3", "python3"},
	},
	"shells": {
		{"sh -c npx·-y·foo", "foo"},
		{"bash -lc uvx·foo==1", "foo"},
		{"bash -l -c exec·uvx·foo", "foo"},
		{"/bin/bash --login -o pipefail -c weather", "weather"},
		{"sh -c cd·x·&&·npx·foo", "foo"},
		{"sh -c cd·/x/weather·&&·node·dist/index.js", "weather"},
		{"sh -c cd·'/x/my·weather';·exec·python·server.py", "my weather"},
		{"sh -c cd·/x/weather;cd·sub·&&·./start.sh", "sub"},
		{"sh -c A=secret·B='x·y'·npx·foo", "foo"},
		{"sh -c export·TOKEN=secret;·npx·foo", "foo"},
		{"sh -c set·-eu¶npx·foo", "foo"},
		{"sh -c .·./env·&&·npx·foo·2>&1·|·tee·log", "foo"},
		{"sh -c exec·2>/dev/null;·npx·foo", "foo"},
		{"sh -c exec·npx·foo·2>>log", "foo"},
		{"sh -c >log·npx·foo", "foo"},
		{"sh -c if·[·-f·x·];·then·npx·foo;·fi", "foo"},
		{"sh -c (cd·x;·npx·foo)", "foo"},
		{`sh -c npx·"@s/foo"`, "foo"},
		{`sh -c npx·\·"unclosed`, "unclosed"},
		{`sh -c exec·"$@" sh npx foo`, "foo"},
		{`sh -c $0·$1·x foo bar`, "foo"},
		{`sh -c "$@" sh A=secret`, "sh"},
		{`sh -c "$@";·"$@" sh true`, "sh"},
		{"sh -c # sh", "sh"},
		{"sh -c #·comment;·bar¶foo", "foo"},
		{"sh -c $CMD", "sh"},
		{"sh -c", "sh"},
		{"sh -c sh·-c·'npx·foo'", "foo"},
		{"bash /x/weather.sh", "weather"},
		{"bash /x/weather/run.sh arg", "weather"},
		{"bash", "bash"},
		{"zsh -c weather", "weather"},
		{"fish -c weather", "weather"},
	},
	"toolchains": {
		{"go run ./cmd/foo", "foo"},
		{"go run example.com/x/foo@latest", "foo"},
		{"go run github.com/x/foo/v2@v2.1.0 -flag", "foo"},
		{"go run github.com/x/foo/cmd/server@latest", "foo"},
		{"go run -race -tags x -ldflags=-s ./foo", "foo"},
		{"go run -C /x/weather .", "weather"},
		{"go -C /x/weather run .", "weather"},
		{"go run /x/weather/main.go", "weather"},
		{"go run example.com/server", "server"},
		{"go run .", "go"},
		{"go tool foo", "foo"},
		{"go build ./foo", "go"},
		{"cargo run --bin foo", "foo"},
		{"cargo run -q --release -p foo -- --bin bar", "foo"},
		{"cargo +nightly run --manifest-path /x/weather/Cargo.toml", "weather"},
		{"cargo run", "cargo"},
		{"cargo build --bin foo", "cargo"},
		{"java -jar foo.jar", "foo"},
		{"java -Xmx1g -Da=b -jar /x/foo.jar --x", "foo"},
		{"java -cp a.jar:b.jar com.example.Main", "com.example.Main"},
		{"dotnet run --project X", "X"},
		{"dotnet run -c Release --project src/Weather.Api/Weather.Api.csproj -- arg", "Weather.Api"},
		{"dotnet x.dll", "x"},
		{"dotnet exec /x/Weather.dll", "Weather"},
		{"dotnet tool run weather", "weather"},
		{"dotnet run", "dotnet"},
		{"dotnet build", "dotnet"},
		{"ruby -I lib x.rb", "x"},
		{"php -d a=b x.php", "x"},
		{"php -f x.php", "x"},
		{"php -r code", "php"},
		{"perl -MJSON -w x.pl", "x"},
		{"perl -ne code x.pl", "perl"},
		{"lua5.4 x.lua", "x"},
		{`pwsh -NoProfile -ExecutionPolicy Bypass -File C:\x\weather.ps1`, "weather"},
		{"pwsh -Command secret", "pwsh"},
		{"wasmtime run --dir . x.wasm", "x"},
	},
	"mcpscope": {
		{"mcpscope run -- npx -y foo", "foo"},
		{"mcpscope run --unknown secret -- uvx foo", "foo"},
		{"mcpscope run --name weather -- npx foo", "weather"},
		{"mcpscope run --name=my·weather npx foo", "my weather"},
		{"mcpscope run npx --name foo", "foo"},
		{"mcpscope run -- npx foo --name bar", "foo"},
		{"mcpscope gateway -- weather", "weather"},
		{"mcpscope list", "mcpscope"},
	},
	"programs": {
		{"weather", "weather"},
		{"/usr/bin/github-mcp-server stdio", "github-mcp-server"},
		{"./weather.sh", "weather"},
		{"weather.exe", "weather"},
		{`C:\x\Weather.EXE`, "Weather"},
		{"/x/weather/target/release/server", "weather"},
		{"/opt/weather/1.4.2/bin/start", "weather"},
		{"/usr/local/bin/server", "server"},
		{"foo.bar", "foo.bar"},
		{".hidden", ".hidden"},
		{"größe", "größe"},
		{"🚀", "🚀"},
		{"--", "--"},
		{".", "."},
		{"/", "server"},
	},
}

func TestDerive(t *testing.T) {
	for group, rows := range groups {
		t.Run(group, func(t *testing.T) {
			for _, r := range rows {
				if got := Derive(r.argv()); got != r.want {
					t.Errorf("%s\n\tgot  %q\n\twant %q", r.line, got, r.want)
				}
			}
		})
	}
}

func TestDeriveFromAnything(t *testing.T) {
	long := strings.Repeat("ä", 100)
	tests := []struct {
		name string
		argv []string
		want string
	}{
		{"nothing", nil, "server"},
		{"an empty word", []string{""}, "server"},
		{"empty words", []string{"npx", "", ""}, "npx"},
		{"blanks", []string{" \t "}, "server"},
		{"blanks around", []string{"uvx", " foo "}, "foo"},
		{"control characters", []string{"node", "we\x1b[2Jath\ner.js"}, "we[2Jather"},
		{"only control characters", []string{"uvx", "\x01\x02"}, "uvx"},
		{"not UTF-8", []string{"wea\xffther\xc3"}, "weather"},
		{"bytes that are a rune once one between is gone", []string{"a\xc3\xff\xa4"}, "a"},
		{"overrides", []string{"\u202erehtaew\u2066\u2028"}, "rehtaew"},
		{"too long", []string{long}, long[:maxDerived]},
		{"cut within a rune", []string{"a" + long}, "a" + long[:maxDerived-2]},
		{"cut before a blank", []string{strings.Repeat("x", maxDerived-1) + " y"}, strings.Repeat("x", maxDerived-1)},
		{"looking through for ever", []string{"sh", "-c", strings.Repeat("exec ", 1000) + "npx foo"}, "exec"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Derive(tt.argv); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestDeriveHasNoSecrets: of all command lines above none ends in the name of
// what stands where keys and tokens do.
func TestDeriveHasNoSecrets(t *testing.T) {
	for _, rows := range groups {
		for _, r := range rows {
			if got := Derive(r.argv()); strings.Contains(got, "secret") {
				t.Errorf("%s: got %q", r.line, got)
			}
		}
	}
}

func FuzzDerive(f *testing.F) {
	for _, rows := range groups {
		for _, r := range rows {
			f.Add(strings.Join(r.argv(), "\x00"))
		}
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

func BenchmarkDerive(b *testing.B) {
	argv := []string{"sh", "-c", "cd /x && exec env A=B npx -y @scope/pkg@1.2"}
	for b.Loop() {
		Derive(argv)
	}
}
