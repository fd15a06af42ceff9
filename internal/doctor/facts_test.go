// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mcpscope/mcpscope/internal/settings"
)

func TestIsTooOld(t *testing.T) {
	for release, want := range map[string]bool{
		"4.19.0": true, "5.4.0-42-generic": true, "5.13.19": true, "5.14.0": false, "6.1.0-10-amd64": false,
		"10.0": false, "unknown": false, "": false,
	} {
		if got := isTooOld(release); got != want {
			t.Errorf("%q: %v", release, got)
		}
	}
}

// One device with zram is enough.
func TestSwapIn(t *testing.T) {
	const heading = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
	for text, want := range map[string]string{
		"": "", heading: "",
		heading + "/dev/sda2 partition 1 0 -2\n":                          "disk",
		heading + "/dev/zram0 partition 1 0 100\n":                        "zram",
		heading + "/swap.img file 1 0 -2\n/dev/zram0 partition 1 0 100\n": "zram",
	} {
		if got := swapIn(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// The command depends on the distribution, and on those that it is like.
func TestZramPackage(t *testing.T) {
	for release, want := range map[string]string{
		"PRETTY_NAME=\"Debian 13\"\nID=debian\n":                   "apt install systemd-zram-generator",
		"ID=ubuntu\nID_LIKE=debian\n":                              "apt install systemd-zram-generator",
		"ID=pop\nID_LIKE=\"ubuntu debian\"\n":                      "apt install systemd-zram-generator",
		"ID=fedora\n":                                              "dnf install zram-generator-defaults",
		"ID=endeavouros\nID_LIKE='arch'\n":                         "pacman -S zram-generator && echo '[zram0]' >/etc/systemd/zram-generator.conf",
		"ID=nixos\nVERSION_ID=\"26.05\"\nHOME_URL=\"https://nix\"": "",
		"": "",
	} {
		if got := zramPackage(release); got != want {
			t.Errorf("%q: %q, want %q", release, got, want)
		}
	}
}

// The row of a gateway has its service. Of one that has ended it names the processes of the service that are left,
// and a command that reaches these alone.
func TestRunningGatewayText(t *testing.T) {
	const kill = "systemctl kill --signal=KILL g.service"
	left := []string{"node[8]", "python3[9]"}
	for want, g := range map[string]runningGateway{
		"hermes[7]: 2 servers":                                                           {name: "hermes", pid: 7, servers: 2},
		"hermes[7] of g.service: 2 servers":                                              {name: "hermes", pid: 7, servers: 2, service: "g.service"},
		"hermes[7]: 0 servers; see --explain PATH and --match GLOB":                      {name: "hermes", pid: 7},
		"hermes[7]: 1 server; it has ended, and programs that it has started may go on":  {name: "hermes", pid: 7, servers: 1, hasEnded: true},
		"hermes[7]: 0 servers; it has ended, and programs that it has started may go on": {name: "hermes", pid: 7, hasEnded: true},
		"hermes[7] of g.service: 0 servers; it has ended, and node[8], python3[9] go on": {name: "hermes", pid: 7, hasEnded: true, service: "g.service", left: left},
		"hermes[7] of g.service: 0 servers; it has ended, and node[8] goes on; " + kill + " ends it; a server is contained from its start with --match GLOB or --config FILE": {
			name: "hermes", pid: 7, hasEnded: true, service: "g.service", left: left[:1], killCommand: kill,
		},
		"hermes[7] of g.service: 0 servers; it has ended, and node[8], python3[9] go on; " + kill + " ends them; a server is contained from its start with --match GLOB or --config FILE": {
			name: "hermes", pid: 7, hasEnded: true, service: "g.service", left: left, killCommand: kill,
		},
	} {
		if got := g.text(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A mistake in a file of settings has its place in the format of editors.
func TestProblemLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mcpscope.toml")
	text := "[defaults]\nrequire = true\n[server.\"git*\"]\neof-grace = \"5s\"\nidle-timeot = \"1h\"\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	files := settings.ParseFiles([]settings.FilePlace{{Path: file, Asked: true}})
	want := []string{file + ":5: unknown key \"idle-timeot\"; did you mean idle-timeout?"}
	if got := problemLines(files.Problems); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
