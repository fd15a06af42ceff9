// SPDX-License-Identifier: Apache-2.0

package units

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/server/names"
)

// groupSettings act on the control group of a unit (systemd.resource-control(5)). A process in a scope of its
// own is outside of that group, and would lose a sandbox or limit that its administrator has given it.
var groupSettings = []string{
	"AllowedCPUs", "AllowedMemoryNodes", "BPFProgram", "CPUQuota", "DeviceAllow", "DevicePolicy",
	"IOReadBandwidthMax", "IOReadIOPSMax", "IOWriteBandwidthMax", "IOWriteIOPSMax", "IPAddressAllow",
	"IPAddressDeny", "IPEgressFilterPath", "IPIngressFilterPath", "MemoryHigh", "MemoryMax", "MemorySwapMax",
	"MemoryZSwapMax", "PrivateDevices", "RestrictNetworkInterfaces", "Slice", "SocketBindAllow",
	"SocketBindDeny", "TasksMax",
}

// withoutEffect are values by which a setting of the list is as without it.
var withoutEffect = []string{"", "0", "no", "false", "off", "auto", "infinity", "system.slice", "app.slice"}

// groupSettings returns those of the service.
func (w written) groupSettings() (names []string) {
	for _, name := range groupSettings {
		value, isSet := w.LastValues[name]
		if isSet && !slices.Contains(withoutEffect, strings.ToLower(value)) {
			names = append(names, name+"=")
		}
	}
	return names
}

const backendFlag = "--backend="

// usesDelegation reports whether flags of mcpscope gateway put its servers below the group of the unit.
func usesDelegation(flags []string) bool {
	return slices.Contains(flags, backendFlag+string(names.Delegated))
}

// keepInGroup adds the flag for a service whose servers have to stay below its control group, and returns a
// line about it. A backend that a person has chosen stays.
func (s service) keepInGroup(flags []string) (kept []string, about string) {
	settings := s.written().groupSettings()
	if len(settings) == 0 || usesDelegation(flags) {
		return flags, ""
	}
	list := strings.Join(settings, ", ")
	i := slices.IndexFunc(flags, func(flag string) bool { return strings.HasPrefix(flag, backendFlag) })
	if i >= 0 {
		const text = "%s of %s will not act on its servers: with %s they are outside of its group"
		return flags, fmt.Sprintf(text, list, s.Name, flags[i])
	}
	flag := backendFlag + string(names.Delegated)
	about = fmt.Sprintf("%s: servers get groups below that of the unit, on which its %s act", flag, list)
	return append([]string{flag}, flags...), about
}
