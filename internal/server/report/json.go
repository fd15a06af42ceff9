// SPDX-License-Identifier: Apache-2.0

//go:build linux

package report

import (
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// appendJSON appends v by the json tags of its fields. Package encoding/json costs every program that links
// it 0.45 ms before its first use.
func appendJSON(text []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Pointer:
		return appendJSON(text, v.Elem())
	case reflect.String:
		return appendString(text, v.String())
	case reflect.Int:
		return strconv.AppendInt(text, v.Int(), 10)
	case reflect.Uint64:
		return strconv.AppendUint(text, v.Uint(), 10)
	case reflect.Float64:
		f := v.Float()
		if math.IsNaN(f) || math.IsInf(f, 0) {
			f = 0 // JSON has neither
		}
		return strconv.AppendFloat(text, f, 'f', -1, 64)
	case reflect.Slice:
		text = append(text, '[')
		for i := range v.Len() {
			text = appendJSON(separated(text), v.Index(i))
		}
		return append(text, ']')
	case reflect.Map:
		text = append(text, '{')
		names := v.MapKeys()
		slices.SortFunc(names, func(a, b reflect.Value) int {
			return strings.Compare(a.String(), b.String())
		})
		for _, name := range names {
			text = appendJSON(append(appendString(separated(text), name.String()), ':'), v.MapIndex(name))
		}
		return append(text, '}')
	}
	if at, ok := v.Interface().(time.Time); ok {
		return appendString(text, at.Format(time.RFC3339Nano))
	}
	text = append(text, '{')
	for i := range v.NumField() { // any other kind panics here
		name, option, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		field := v.Field(i)
		list := field.Kind() == reflect.Slice || field.Kind() == reflect.Map
		if option != "omitempty" || !field.IsZero() && (!list || field.Len() > 0) {
			text = appendJSON(append(appendString(separated(text), name), ':'), field)
		}
	}
	return append(text, '}')
}

func separated(text []byte) []byte {
	if last := text[len(text)-1]; last != '{' && last != '[' {
		text = append(text, ',')
	}
	return text
}

// appendString takes any bytes.
func appendString(text []byte, s string) []byte {
	const hex = "0123456789abcdef"
	text = append(text, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			text = append(text, '\\', byte(r))
		case r < ' ' || r == 0x7f:
			text = append(text, '\\', 'u', '0', '0', hex[r>>4], hex[r&0xf])
		case r == '\u2028' || r == '\u2029': // which end a line in JavaScript
			text = append(text, '\\', 'u', '2', '0', '2', hex[r&0xf])
		default:
			text = utf8.AppendRune(text, r)
		}
	}
	return append(text, '"')
}
