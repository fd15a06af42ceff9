// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"reflect"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/server/policy"
)

// Another process of the user can have written the page of a tree.
func FuzzConfig(f *testing.F) {
	c := NewConfig()
	c.Argv = []string{"a", "\xff"}
	c.Output.Notes = []string{"n"}
	c.Facts.Name = "ü"
	f.Add(Encode(c))
	f.Add([]byte{0x80})
	f.Fuzz(func(t *testing.T, b []byte) {
		var c, again Config
		if Decode(b, &c) != nil {
			return
		}
		if err := Decode(Encode(&c), &again); err != nil || !reflect.DeepEqual(c, again) {
			t.Fatalf("%+v came back as %+v, %v", c, again, err)
		}
	})
}

func TestConfigComesBack(t *testing.T) {
	full := &Config{}
	fill(reflect.ValueOf(full).Elem())
	full.Facts.Version = ProtocolVersion
	var again Config
	if err := Decode(Encode(full), &again); err != nil || !reflect.DeepEqual(*full, again) {
		t.Errorf("%+v came back as %+v, %v", *full, again, err)
	}
}

// fill gives every field a value.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0))
		fill(v.Index(1))
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(-7)
	case reflect.Uint64:
		v.SetUint(1 << 60)
	default:
		panic(v.Kind())
	}
}

// The whole ladder is over before the clients that kill after closing stdin do.
func TestDefaultsAreWithinTheClientsPatience(t *testing.T) {
	p := policy.Default()
	if sum := p.EOFGrace + p.TermGrace; sum >= 3*time.Second || p.EOFGrace < time.Second {
		t.Errorf("%v and %v: rmcp kills at 3 s, and answers may take 1 s", p.EOFGrace, p.TermGrace)
	}
}

// A helper that waits for a container as long as its grace says is not replaced.
func TestHelperMayWaitForAContainer(t *testing.T) {
	for _, grace := range []time.Duration{time.Second, time.Hour, freeze.Forever} {
		c := &Config{}
		c.Facts.Engine = "docker"
		c.Facts.Policy.TermGrace = grace
		if within, finite := EndWithin(c), policy.FiniteGrace(grace); within < finite+policy.EngineWithin {
			t.Errorf("%v for a grace of %s", within, policy.GraceText(grace))
		}
	}
}
