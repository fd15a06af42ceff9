// SPDX-License-Identifier: Apache-2.0

package wrapping_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/pelletier/go-toml/v2"
	"github.com/tailscale/hujson"
	yaml3 "go.yaml.in/yaml/v3"

	"github.com/mcpscope/mcpscope/internal/clientconfig/splice"
	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
)

func FuzzJSON(f *testing.F) {
	fuzz(f, splice.JSON, func(data []byte, v any) error {
		data, err := hujson.Standardize(bytes.TrimPrefix(bytes.Clone(data), []byte("\uFEFF")))
		if err != nil {
			return err
		}
		return json.Unmarshal(data, v)
	})
}

func FuzzTOML(f *testing.F) {
	fuzz(f, splice.TOML, func(data []byte, v any) error {
		m := map[string]any{}
		err := toml.Unmarshal(bytes.TrimPrefix(data, []byte("\uFEFF")), &m)
		*v.(*any) = m
		return err
	})
}

// The judge is another library than the product's, where both are of one mind about the file.
func FuzzYAML(f *testing.F) {
	fuzz(f, splice.YAML, func(data []byte, v any) error {
		data = bytes.TrimPrefix(data, []byte("\uFEFF"))
		var ours any
		if err := errors.Join(yaml3.Unmarshal(data, &ours), yaml.Unmarshal(data, v)); err != nil {
			return err
		}
		if a, b := fmt.Sprint(ours), fmt.Sprint(*v.(*any)); a != b {
			return fmt.Errorf("it is %s or %s", a, b)
		}
		return nil
	})
}

func fuzz(f *testing.F, format splice.Format, decode func([]byte, any) error) {
	for _, text := range seeds(f, format) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if searching() { // the fuzzing engine reports no hang; a test's own timeout does
			watchdog := time.AfterFunc(20*time.Second, func() { panic(fmt.Sprintf("still at work on %q", data)) })
			defer watchdog.Stop()
		}
		d, err := splice.Parse(format, data)
		if err != nil {
			return
		}
		checkPositions(t, d, d.Root, decode)
		there := everywhere.Wrap(d, nil, plain, all)
		var before, after any
		if decode(data, &before) == nil {
			if err := decode(there.Data, &after); err != nil {
				t.Fatalf("the result is malformed: %v\n%q", err, there.Data)
			}
			if after = undo(before, after); !reflect.DeepEqual(before, after) && !hasNaN(before) {
				t.Fatalf("wrapped %q\nto %q\nit says %#v\nand should say %#v", data, there.Data, after, before)
			}
		}
		bare := everywhere.Mask(d)
		d, err = splice.Parse(format, there.Data)
		if err != nil {
			t.Fatalf("the result cannot be read: %v\n%q", err, there.Data)
		}
		checkMask(t, data, there.Data, bare, everywhere.Mask(d))
		if again := everywhere.Wrap(d, there.Backup, plain, all); again.Count() > 0 {
			t.Fatalf("a second wrap changes %q", there.Data)
		}
		if slices.ContainsFunc(there.Servers, func(s wrapping.Server) bool { return s.State == wrapping.Wrapped }) {
			return // it was wrapped before
		}
		if back := everywhere.Unwrap(d, there.Backup, all); !bytes.Equal(back.Data, data) {
			t.Fatalf("%q\nbecame %q\nand came back as %q", data, there.Data, back.Data)
		}
		var back any
		if change := everywhere.Unwrap(d, nil, all); decode(data, &before) == nil && decode(change.Data, &back) == nil {
			if before, back = withArgs(before), withArgs(back); !reflect.DeepEqual(before, back) && !hasNaN(before) {
				t.Fatalf("%q\nbecame %q\nand without the backup %q", data, there.Data, change.Data)
			}
		}
	})
}

// checkMask: masked texts have the lines of their files, and differ where those do.
func checkMask(t *testing.T, bare, there, maskedBare, maskedThere []byte) {
	lines := bytes.SplitAfter(bare, []byte("\n"))
	masked := bytes.SplitAfter(maskedBare, []byte("\n"))
	other := bytes.SplitAfter(there, []byte("\n"))
	maskedOther := bytes.SplitAfter(maskedThere, []byte("\n"))
	if len(lines) != len(masked) || len(other) != len(maskedOther) {
		t.Fatalf("%q\nis masked as %q\nand %q\nas %q", bare, maskedBare, there, maskedThere)
	}
	for i := range min(len(lines), len(other)) {
		if len(lines) == len(other) && bytes.Equal(lines[i], other[i]) != bytes.Equal(masked[i], maskedOther[i]) {
			t.Fatalf("line %d: %q and %q\nare masked as %q and %q", i+1, lines[i], other[i], masked[i], maskedOther[i])
		}
	}
	if !bytes.Equal(bare, there) && bytes.Equal(maskedBare, maskedThere) {
		t.Fatalf("%q\nand %q\nhave the same mask %q", bare, there, maskedThere)
	}
}

// searching is false in a run of the seeds alone.
func searching() bool { return flag.Lookup("test.fuzz").Value.String() != "" }

// seeds are the files of the clients, and the texts of the tables.
func seeds(f *testing.F, format splice.Format) (texts [][]byte) {
	ext := map[splice.Format]string{splice.JSON: ".json", splice.TOML: ".toml", splice.YAML: ".yaml"}[format]
	err := filepath.WalkDir("../known/testdata", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ext {
			return err
		}
		text, err := os.ReadFile(path)
		texts = append(texts, text)
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range map[splice.Format][]string{
		splice.JSON: {`{"mcpServers":{"t":{"command":"npx","args":["-y",]}}}`, `{"mcp":{"t":{"command":["npx"]/**/}}}`, `{"mcpServers":{"t":{"command":"npx"}}}`},
		splice.YAML: {"mcpServers:\n- command: x\n  args:\n  - y\n", "extensions: {t: {cmd: 'x', args: [\"y\"]}}", "mcp_servers:\n  t:\n    command: x # c\r\n"},
		splice.TOML: {"mcp_servers.t.command='x'", "[[mcp_servers]]\ncommand=['x']", "[mcp_servers]\nt={command='x',args=[]}", "[mcp_servers.t]\r\ncommand='x'\r\nargs=[#\r\n'']"},
	}[format] {
		texts = append(texts, []byte(text))
	}
	return texts
}

// checkPositions: the text at the position of a value has that value.
func checkPositions(t *testing.T, d *splice.Document, n *splice.Node, decode func([]byte, any) error) {
	if n.Kind == splice.Text && n.End > 0 {
		raw, key := d.Raw(n), ""
		if d.Format == splice.TOML {
			key = "k = "
		}
		var v any
		if err := decode([]byte(key+raw), &v); err != nil {
			return // the two readers are not of one mind about what is malformed
		}
		if m, _ := v.(map[string]any); d.Format == splice.TOML {
			v = m["k"]
		}
		if v != n.Text {
			t.Fatalf("%q: at %d is %q, which says %#v and not %q", d.Data, n.Start, raw, v, n.Text)
		}
	}
	for _, m := range n.Members {
		checkPositions(t, d, m.Value, decode)
	}
	for _, item := range n.Items {
		checkPositions(t, d, item, decode)
	}
}

// withArgs leaves out lists of arguments that are empty.
func withArgs(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if list, ok := value.([]any); ok && key == "args" && len(list) == 0 {
				delete(v, key)
			}
			withArgs(value)
		}
	case []any:
		for i := range v {
			withArgs(v[i])
		}
	}
	return v
}

// undo removes the prefixes from a decoded file. It recognizes them by their texts alone.
func undo(before, after any) any {
	for _, place := range everywhere.Places {
		pairs(before, after, place, func(b, a any) {
			if !reflect.DeepEqual(a, b) {
				undoServer(b, a)
			}
		})
	}
	return after
}

// pairs calls f for each server of both.
func pairs(b, a any, place wrapping.Place, f func(b, a any)) {
	before, after := entries(b), entries(a)
	for key, value := range after {
		switch {
		case len(place) == 0:
			f(before[key], value)
		case place[0] == "*" || place[0] == key:
			pairs(before[key], value, place[1:], f)
		}
	}
}

func entries(v any) map[string]any {
	all := map[string]any{}
	switch v := v.(type) {
	case map[string]any:
		return v
	case []any:
		for i, value := range v {
			all[fmt.Sprint(i)] = value
		}
	}
	return all
}

func undoServer(before, server any) {
	old, _ := before.(map[string]any)
	s, _ := server.(map[string]any)
	for _, key := range []string{"command", "cmd", "path"} {
		switch command := s[key].(type) {
		case map[string]any:
			undoServer(old[key], command)
		case string:
			args, _ := s["args"].([]any)
			i := slices.Index(args, any("--"))
			if command != program || i < 0 {
				continue
			}
			s[key], s["args"] = args[i+1], args[i+2:]
			if _, had := old["args"]; !had {
				delete(s, "args")
			}
		case []any:
			if i := slices.Index(command, any("--")); i > 0 && command[0] == program {
				s[key] = command[i+1:]
			}
		}
	}
}

// hasNaN: NaN cannot be compared.
func hasNaN(v any) bool { return !reflect.DeepEqual(v, v) }
