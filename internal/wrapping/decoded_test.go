// SPDX-License-Identifier: Apache-2.0

package wrapping_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/wrapping"
)

// plain makes every key a text.
func plain(v any) any {
	switch v := v.(type) {
	case map[any]any:
		all := map[string]any{}
		for key, value := range v {
			if text, ok := key.(string); ok {
				all[text] = plain(value)
			} else {
				all[fmt.Sprintf("%T %v", key, key)] = plain(value)
			}
		}
		return all
	case map[string]any:
		for key := range v {
			v[key] = plain(v[key])
		}
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	}
	return v
}

// undo takes the prefixes away from what was decoded. It knows them from the texts alone.
func undo(before, after any) any {
	for _, place := range everywhere.Places {
		pairs(before, after, place, func(b, a any) {
			if !reflect.DeepEqual(a, b) {
				undoServer(a)
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

func undoServer(server any) {
	s, _ := server.(map[string]any)
	for _, key := range []string{"command", "cmd", "path"} {
		switch command := s[key].(type) {
		case map[string]any:
			undoServer(command)
		case string:
			args, _ := s["args"].([]any)
			i := slices.Index(args, any("--"))
			if command != program || i < 0 {
				continue
			}
			s[key], s["args"] = args[i+1], args[i+2:]
			if slices.ContainsFunc(args[:i], func(v any) bool { s, _ := v.(string); return strings.HasPrefix(s, "--wrapped=no-args") }) {
				delete(s, "args")
			}
		case []any:
			if i := slices.Index(command, any("--")); i > 0 && command[0] == program {
				s[key] = command[i+1:]
			}
		}
	}
}

// hasNaN: what is not itself can't be compared.
func hasNaN(v any) bool { return !reflect.DeepEqual(v, v) }
