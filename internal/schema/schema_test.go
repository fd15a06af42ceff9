// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/mcpscope/mcpscope/internal/settings"
)

// compiled is the schema as an editor reads it.
func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := json.Marshal(Make())
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("mcpscope.json", parsed); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("mcpscope.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// validate returns a mistake in a file.
func validate(t *testing.T, schema *jsonschema.Schema, file string) error {
	t.Helper()
	var content map[string]any
	if err := toml.Unmarshal([]byte(file), &content); err != nil {
		t.Fatalf("%v in\n%s", err, file)
	}
	return schema.Validate(map[string]any(content))
}

// problemsOf are the mistakes that mcpscope finds in a file.
func problemsOf(t *testing.T, file string) []settings.FileProblem {
	t.Helper()
	path := t.TempDir() + "/mcpscope.toml"
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	return settings.ParseFiles([]settings.FilePlace{{Path: path}}).Problems
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Every key of the table is in the schema, in each table of the file that may have it.
func TestSchemaHasEveryKey(t *testing.T) {
	schema := compiled(t)
	for _, row := range settings.Rows(settings.Run | settings.Gateway) {
		values := slices.Clone(row.Values)
		switch {
		case row.List:
			values = []string{`["a", "b"]`}
		case row.Switch():
			values = []string{"true", "false"}
		default:
			for i, text := range values {
				values[i] = `"` + strings.Trim(text, `"`) + `"`
			}
			if len(values) == 0 {
				values = []string{`"memory.high=1G"`} // of set, and a path
			}
		}
		for _, value := range values {
			for _, table := range []string{"[defaults]", `[server."git*"]`} {
				file := table + "\n" + row.Name + " = " + value + "\n"
				err := validate(t, schema, file)
				wanted := len(problemsOf(t, file)) == 0
				if (err == nil) != wanted {
					t.Errorf("mcpscope takes it: %v; the schema: %v\n%s", wanted, err, file)
				}
				isPlace := row.Where&settings.File != 0 && (table == "[defaults]" || !row.Whole)
				if wanted != isPlace {
					t.Errorf("mcpscope takes it: %v, want %v\n%s", wanted, isPlace, file)
				}
			}
		}
	}
}

// The examples of the documents are valid: the file with its comments and without them, and the page.
func TestSchemaTakesTheExamples(t *testing.T) {
	schema := compiled(t)
	example := read(t, "../../packaging/mcpscope.toml")
	_, examples, found := strings.Cut(example, "\n#\n")
	if !found {
		t.Fatalf("no example in %s", example)
	}
	page := regexp.MustCompile("(?s)```toml\n(.*?)```").FindStringSubmatch(read(t, "../../docs/operate/commands.md"))
	if page == nil {
		t.Fatal("no example on the page")
	}
	for _, file := range []string{example, regexp.MustCompile(`(?m)^#`).ReplaceAllString(examples, ""), page[1]} {
		if err := validate(t, schema, file); err != nil {
			t.Errorf("%v in\n%s", err, file)
		}
		if problems := problemsOf(t, file); len(problems) > 0 {
			t.Errorf("%v in\n%s", problems, file)
		}
	}
}

// The schema refuses what mcpscope refuses.
func TestSchemaRefusesMistakes(t *testing.T) {
	schema := compiled(t)
	for _, file := range []string{
		"[defaults]\nmemory-maks = \"1G\"\n",
		"[defaults]\nname = \"git\"\n",
		"[defaults]\nrequire = \"true\"\n",
		"[defaults]\nbackend = \"lax\"\n",
		"[defaults]\nmatch = \"npx *\"\n",
		"[defaults]\nmemory-max = 1.5\n",
		"[server.git]\nmatch = [\"a\"]\n",
		"[server.git]\neof_grace = \"1s\"\n",
		"[servers.git]\neof-grace = \"1s\"\n",
		"eof-grace = \"1s\"\n",
		"[client.my]\nservers = [\"a\"]\n",
		"[client.my]\npath = \"/a\"\nformat = \"ini\"\n",
		"[client.my]\npath = \"/a\"\nservers = []\n",
		"[client.\"my tool\"]\npath = \"/a\"\n",
	} {
		if err := validate(t, schema, file); err == nil {
			t.Errorf("the schema takes\n%s", file)
		}
		if problems := problemsOf(t, file); len(problems) == 0 {
			t.Errorf("mcpscope takes\n%s", file)
		}
	}
}
