// SPDX-License-Identifier: Apache-2.0

package units

import (
	"fmt"
	"regexp"
	"strings"
)

// serviceName matches a name that is safe in a path and, apart from backslashes, as a word of a shell.
var serviceName = regexp.MustCompile(`^[A-Za-z0-9:_\\@-][A-Za-z0-9:_.\\@-]*\.service$`)

const nameMost = 252 // with .d behind it, it names a directory, by at most 255 bytes

// ServiceName is the name of a service, from which a path can be made.
type ServiceName struct {
	Entered string // as a person spells it, which may be without its ending
	Full    string
}

// ParseServiceName completes the name of a service.
func ParseServiceName(entered string) (ServiceName, error) {
	full := strings.TrimSuffix(entered, ".service") + ".service"
	if len(full) > nameMost || !serviceName.MatchString(full) {
		return ServiceName{}, fmt.Errorf("%q is not the name of a service", entered)
	}
	return ServiceName{Entered: entered, Full: full}, nil
}

// checkNoTemplate refuses a template, which has instances and does not run itself.
func (n ServiceName) checkNoTemplate() error {
	if !strings.HasSuffix(n.Full, "@.service") {
		return nil
	}
	instance := strings.TrimSuffix(n.Full, ".service") + "1"
	return fmt.Errorf("%s is a template: name an instance, such as %s", n.Full, instance)
}
