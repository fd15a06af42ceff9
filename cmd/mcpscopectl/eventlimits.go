// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"strings"
)

func (v eventView) outOfMemory() string {
	if v.OOMKills == nil {
		return ""
	}
	text := fmt.Sprintf("the kernel killed %d", *v.OOMKills)
	if v.MemoryMax != nil {
		text += ", limit " + humanBytes(*v.MemoryMax)
	}
	if v.MemoryPeak != nil {
		text += ", peak " + humanBytes(*v.MemoryPeak)
	}
	if len(v.Biggest) > 0 {
		var all []string
		for _, text := range v.Biggest {
			all = append(all, humanConsumer(text))
		}
		text += ", most had " + strings.Join(all, "; ")
	}
	return text
}

// humanConsumer has the size behind "NAME[PID] " for people.
func humanConsumer(text string) string {
	at := strings.LastIndexByte(text, ' ')
	if n := bytesIn(text[at+1:]); n != nil {
		return text[:at+1] + humanBytes(*n)
	}
	return text
}

func (v eventView) refused() string {
	if v.PIDsRefused == nil {
		return ""
	}
	text := fmt.Sprintf("%d times", *v.PIDsRefused)
	if v.PIDsMax != nil {
		text += fmt.Sprintf(", limit %d", *v.PIDsMax)
	}
	return text
}
