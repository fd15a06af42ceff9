// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine is what the numbers depend on.
type Machine struct {
	Kernel    string `json:"kernel"`
	Processor string `json:"processor"`
	CPUs      int    `json:"cpus"`
	Systemd   string `json:"systemd"`
	Go        string `json:"go"`
	// Loads are the load averages of a minute before each part: the machine's, not the
	// host's. The benchmark itself makes about 1. Pressure is how much of that minute
	// somebody had to wait for a processor, in percent, where the kernel says it.
	Loads    []string `json:"loads"`
	Pressure []string `json:"pressure,omitempty"`
}

func thisMachine() (Machine, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return Machine{}, os.NewSyscallError("uname", err)
	}
	return Machine{
		Kernel: unix.ByteSliceToString(name.Release[:]), Processor: processor(), CPUs: runtime.NumCPU(),
		Systemd: systemdVersion(), Go: runtime.Version(),
	}, nil
}

func (m Machine) String() string {
	return fmt.Sprintf("Linux %s, %d × %s, %s, %s\nload average before each part: %s; processor pressure: %s %%",
		m.Kernel, m.CPUs, m.Processor, m.Systemd, m.Go, strings.Join(m.Loads, ", "), strings.Join(m.Pressure, ", "))
}

// processor is empty where the kernel does not name it, as on arm64.
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unnamed " + runtime.GOARCH
}

func systemdVersion() string {
	out, _ := exec.Command("systemctl", "--version").Output()
	first, _, _ := strings.Cut(string(out), " (")
	return first
}

func (m *Machine) noteLoad() error {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return err
	}
	m.Loads = append(m.Loads, strings.Fields(string(text))[0])
	text, _ = os.ReadFile("/proc/pressure/cpu") // Linux 4.20, and not in every configuration
	if fields := strings.Fields(string(text)); len(fields) > 2 {
		m.Pressure = append(m.Pressure, strings.TrimPrefix(fields[2], "avg60="))
	}
	return nil
}
