package lane

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Request asks weft-wireguard for a userspace lane. It is the JSON content of
// <run folder>/lanes/<device>.json.
type Request struct {
	MTU int `json:"mtu"` // bytes
}

const requestSuffix = ".json"

// maxRequestBytes bounds what is read of a request.
const maxRequestBytes = 4096

var validName = regexp.MustCompile(`^weft[0-9]{1,5}$`)

// ValidName tells lane devices from others by their name.
func ValidName(device string) bool { return validName.MatchString(device) }

// RequestFolder is where requests for userspace lanes are.
func RequestFolder(runDir string) string { return filepath.Join(runDir, "lanes") }

// SocketPath is where wgctrl looks for a userspace device.
func SocketPath(device string) string { return "/var/run/wireguard/" + device + ".sock" }

func requestPath(runDir, device string) string {
	return filepath.Join(RequestFolder(runDir), device+requestSuffix)
}

// Requests reads all requests by device. Files that are none are left out and
// joined into the error; os.ErrNotExist means that the folder is missing, so
// nothing is known.
func Requests(runDir string) (map[string]Request, error) {
	entries, err := os.ReadDir(RequestFolder(runDir))
	if err != nil {
		return nil, fmt.Errorf("read lane requests: %w", err)
	}
	requests := map[string]Request{}
	var failed []error
	for _, entry := range entries {
		device, isRequest := strings.CutSuffix(entry.Name(), requestSuffix)
		if !isRequest || !ValidName(device) {
			continue
		}
		request, err := readRequest(runDir, device)
		if errors.Is(err, os.ErrNotExist) {
			continue // removed since the listing
		}
		if err != nil {
			failed = append(failed, err)
			continue
		}
		requests[device] = request
	}
	return requests, errors.Join(failed...)
}

func readRequest(runDir, device string) (Request, error) {
	var request Request
	content, err := os.ReadFile(requestPath(runDir, device))
	if err != nil {
		return request, fmt.Errorf("read lane request %s: %w", device, err)
	}
	if len(content) > maxRequestBytes {
		return request, fmt.Errorf("lane request %s has %d bytes, more than %d", device, len(content), maxRequestBytes)
	}
	if err := json.Unmarshal(content, &request); err != nil {
		return request, fmt.Errorf("lane request %s is not valid JSON: %w", device, err)
	}
	if request.MTU < 576 || request.MTU > 65535 {
		return request, fmt.Errorf("lane request %s: MTU %d is not between 576 and 65535", device, request.MTU)
	}
	return request, nil
}

// writeRequest writes the request at once or not at all, and only if it differs.
func writeRequest(runDir, device string, request Request) (bool, error) {
	if current, err := readRequest(runDir, device); err == nil && current == request {
		return false, nil
	}
	content, err := json.Marshal(request)
	if err != nil {
		return false, err
	}
	folder := RequestFolder(runDir)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return false, fmt.Errorf("make folder of lane requests: %w", err)
	}
	temporary := filepath.Join(folder, "."+device+".tmp")
	if err := os.WriteFile(temporary, append(content, '\n'), 0o600); err != nil {
		return false, fmt.Errorf("write lane request %s: %w", device, err)
	}
	if err := os.Rename(temporary, requestPath(runDir, device)); err != nil {
		return false, fmt.Errorf("write lane request %s: %w", device, err)
	}
	return true, nil
}

func removeRequest(runDir, device string) (bool, error) {
	err := os.Remove(requestPath(runDir, device))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("remove lane request %s: %w", device, err)
	}
	return true, nil
}

// answers says whether somebody serves the device's UAPI socket.
func answers(device string) bool {
	connection, err := net.DialTimeout("unix", SocketPath(device), time.Second)
	if err != nil {
		return false
	}
	return connection.Close() == nil
}
