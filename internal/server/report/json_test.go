// SPDX-License-Identifier: Apache-2.0

//go:build linux

package report

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

// The report reads as if encoding/json had written it by its tags, with every field and with none.
func TestReportIsJSON(t *testing.T) {
	full := &Report{}
	fill(reflect.ValueOf(full).Elem())
	for _, r := range []*Report{{}, full} {
		want, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		text := appendJSON(nil, reflect.ValueOf(r))
		var have, wanted any
		if err := json.Unmarshal(text, &have); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if err := json.Unmarshal(want, &wanted); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(have, wanted) {
			t.Errorf("%s\nwant %s", text, want)
		}
	}
}

// fill gives every field a value.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1700000000, 123456789).UTC()))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0))
		fill(v.Index(1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value)
		v.SetMapIndex(reflect.ValueOf("a"), value)
		v.SetMapIndex(reflect.ValueOf("b"), value)
	case reflect.String:
		v.SetString("text")
	case reflect.Int:
		v.SetInt(-7)
	case reflect.Uint64:
		v.SetUint(1 << 60)
	case reflect.Float64:
		v.SetFloat(0.000001234)
	default:
		panic(v.Kind())
	}
}

// Names and command lines are others' bytes.
func FuzzReportText(f *testing.F) {
	for _, s := range []string{"", "a\"\\/<>&", "\x00\x1f\x7f\n\t", "\xff\xfeü\u2028\u2029\U0001f600", strings.Repeat("\xc3", 3)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text := appendString(nil, s)
		want, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var have, wanted string
		if err := json.Unmarshal(text, &have); err != nil || strings.ContainsAny(string(text), "\n\r\x1b") {
			t.Fatalf("%q: %v", text, err)
		}
		if err := json.Unmarshal(want, &wanted); err != nil || have != wanted {
			t.Errorf("%q, want %q, %v", have, wanted, err)
		}
	})
}
