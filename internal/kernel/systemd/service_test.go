// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"errors"
	"maps"
	"math"
	"slices"
	"testing"
)

// Of the settings that act on a control group those are listed that differ from the defaults of a manager.
func TestOnGroup(t *testing.T) {
	const infinite = uint64(math.MaxUint64)
	defaults := properties{
		"Id": "g.service", "Slice": "system.slice", "TasksMax": uint64(4915), "MemoryMax": infinite, "CPUQuotaPerSecUSec": infinite,
		"DevicePolicy": "auto", "PrivateDevices": false, "DeviceAllow": [][]any{}, "AllowedCPUs": []byte{},
		"IPAddressDeny": [][]any{}, "RestrictNetworkInterfaces": []any{false, []string{}}, "IPEgressFilterPath": []string{},
	}
	for name, c := range map[string]struct {
		changed properties
		want    []string
	}{
		"defaults":         {nil, nil},
		"an instance":      {properties{"Id": "g@1.service", "Slice": `system-g.slice`}, nil},
		"a user's manager": {properties{"Slice": "app.slice"}, nil},
		"own slice":        {properties{"Slice": "limited.slice"}, []string{"Slice"}},
		"tasks":            {properties{"TasksMax": uint64(99)}, []string{"TasksMax"}},
		"limits":           {properties{"MemoryMax": uint64(1), "CPUQuotaPerSecUSec": uint64(1)}, []string{"CPUQuota", "MemoryMax"}},
		"devices":          {properties{"DevicePolicy": "closed", "PrivateDevices": true, "DeviceAllow": [][]any{{"/dev/kvm", "rw"}}}, []string{"DeviceAllow", "DevicePolicy", "PrivateDevices"}},
		"network":          {properties{"IPAddressDeny": [][]any{{int32(2), []byte{0}, uint32(0)}}, "RestrictNetworkInterfaces": []any{true, []string{"lo"}}}, []string{"IPAddressDeny", "RestrictNetworkInterfaces"}},
		"processors":       {properties{"AllowedCPUs": []byte{1}}, []string{"AllowedCPUs"}},
	} {
		p := maps.Clone(defaults)
		maps.Copy(p, c.changed)
		if got := p.onGroup("@t 4915"); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A command has its program, its words and its flags.
func TestCommands(t *testing.T) {
	p := properties{"ExecStartEx": [][]any{
		{"/bin/g", []string{"/bin/g", "$X"}, []string{"ignore-failure"}, uint64(0), uint64(0), uint64(0), uint64(0), uint32(0), int32(0), int32(0)},
	}}
	got := p.commands("ExecStartEx")
	if len(got) != 1 || got[0].Program != "/bin/g" || !slices.Equal(got[0].Argv, []string{"/bin/g", "$X"}) ||
		!slices.Equal(got[0].Flags, []string{"ignore-failure"}) {
		t.Errorf("%+v", got)
	}
	if !(Command{Argv: []string{"/opt/mcpscope", "gateway"}}).IsProgram("mcpscope", "gateway") {
		t.Error("it is another program")
	}
	for _, argv := range [][]string{nil, {"/opt/mcpscope"}, {"/bin/sh", "gateway"}, {"mcpscope", "run"}} {
		if (Command{Argv: argv}).IsProgram("mcpscope", "gateway") {
			t.Errorf("%q", argv)
		}
	}
}

// A filter allows its calls, or all others. An entry can have an error that the call returns.
func TestCallFilter(t *testing.T) {
	allowing := properties{"SystemCallFilter": []any{true, []string{"read", "tee:1"}}}.callFilter()
	denying := properties{"SystemCallFilter": []any{false, []string{"read", "tee:1"}}}.callFilter()
	if !allowing.Allows("tee") || allowing.Allows("seccomp") || denying.Allows("tee") || !denying.Allows("seccomp") {
		t.Errorf("%+v, %+v", allowing, denying)
	}
	if none := (properties{}).callFilter(); !none.Allows("read") {
		t.Errorf("%+v", none)
	}
}

func TestUnitThatIsNotLoaded(t *testing.T) {
	if _, err := (properties{"LoadState": "not-found"}).unit("g.service"); !errors.Is(err, ErrNoUnit) {
		t.Errorf("%v", err)
	}
	const want = `g.service: the manager cannot use its files: LoadState is "masked"`
	if _, err := (properties{"LoadState": "masked"}).unit("g.service"); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
