// SPDX-License-Identifier: Apache-2.0

//go:build linux

package systemd

import "testing"

func TestUnitOf(t *testing.T) {
	for path, want := range map[string]struct {
		unit string
		kind Kind
	}{
		"/":                                    {"", System},
		"/system.slice/hermes.service":         {"hermes.service", System},
		"/system.slice/hermes.service/gw/leaf": {"hermes.service", System},
		"/user.slice/user-1000.slice/session-3.scope":                                        {"session-3.scope", System},
		"/user.slice/user-1000.slice/user@1000.service/app.slice/hermes-gateway.service":     {"hermes-gateway.service", User},
		"/user.slice/user-1000.slice/user@1000.service/app.slice/app-x.slice/app-code.scope": {"app-code.scope", User},
		"/user.slice/user-1000.slice/user@1000.service/init.scope":                           {"init.scope", User},
		"/user.slice/user-1000.slice/user@1000.service/mcp.slice/mcp-a-b.scope/payload":      {"mcp-a-b.scope", User},
		"/user.slice/user-1001.slice/user@1001.service/app.slice/x.service":                  {"x.service", System},
		"/init.scope":                {"init.scope", System},
		"/system.slice/_cpu.service": {"cpu.service", System},
		"/docker/abc":                {"", System},
	} {
		unit, kind, ok := UnitOf(path, 1000)
		if unit != want.unit || kind != want.kind || ok != (want.unit != "") {
			t.Errorf("%s: %q, %q, %v; want %q, %q", path, unit, kind, ok, want.unit, want.kind)
		}
	}
}

func FuzzUnitOf(f *testing.F) {
	f.Add("/a/b.service//c")
	f.Fuzz(func(t *testing.T, path string) {
		if unit, _, ok := UnitOf(path, 0); ok && unit == "" {
			t.Fatalf("%q is in a unit without a name", path)
		}
	})
}

func TestSlicePath(t *testing.T) {
	for slice, want := range map[string]string{
		"mcp.slice": "mcp.slice", "a-b-c.slice": "a.slice/a-b.slice/a-b-c.slice", "-.slice": "",
	} {
		if got := SlicePath(slice); got != want {
			t.Errorf("%s: %q, want %q", slice, got, want)
		}
	}
}
