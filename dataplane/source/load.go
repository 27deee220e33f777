package source

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// load reads every *.yaml of the folder, in order of name, each with any number
// of documents, then the status folder.
func load(folder, node string) (Snapshot, error) {
	c := collector{}
	// A folder that is not there says nothing; Glob would call it empty.
	if _, err := os.ReadDir(folder); err != nil {
		return Snapshot{}, fmt.Errorf("read folder: %w", err)
	}
	if err := each(folder, c.add); err != nil {
		return Snapshot{}, err
	}
	if err := each(filepath.Join(folder, statusFolder), c.addStatus); err != nil {
		return Snapshot{}, err
	}
	c.snapshot.Pods = podAddresses(c.pods, node)
	s := &c.snapshot
	s.ConfigSynced, s.NodesSynced, s.NeighborsSynced, s.VNISynced, s.PodsSynced = true, true, true, true, true
	return *s, nil
}

// each calls f with every document of every *.yaml in the folder.
func each(folder string, f func(document []byte) error) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return fmt.Errorf("list %s: %w", folder, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read objects: %w", err)
		}
		reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
		for {
			document, err := reader.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err == nil {
				err = f(document)
			}
			if err != nil {
				return fmt.Errorf("read %s: %w", file, err)
			}
		}
	}
	return nil
}

// collector gathers documents into a Snapshot.
type collector struct {
	snapshot Snapshot
	pods     []corev1.Pod
}

func (c *collector) add(document []byte) error {
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(document, &kind); err != nil {
		return fmt.Errorf("not YAML: %w", err)
	}
	s := &c.snapshot
	switch kind.Kind {
	case "": // nothing but comments
	case "FabricConfig":
		s.Config = &v1alpha1.FabricConfig{}
		err := decode(document, s.Config)
		setDefaults(&s.Config.Spec)
		return err
	case "FabricNode":
		s.Nodes = append(s.Nodes, v1alpha1.FabricNode{})
		return decode(document, &s.Nodes[len(s.Nodes)-1])
	case "Neighbor":
		s.Neighbors = append(s.Neighbors, v1alpha1.Neighbor{})
		return decode(document, &s.Neighbors[len(s.Neighbors)-1])
	case "Secret":
		var secret corev1.Secret
		if err := decode(document, &secret); err != nil {
			return errors.New("the Secret cannot be decoded") // its text stays out of the log
		}
		if secret.Name == v1alpha1.OverlaySecretName {
			s.VNI = vniOf(&secret)
		}
	case "Pod":
		c.pods = append(c.pods, corev1.Pod{})
		return decode(document, &c.pods[len(c.pods)-1])
	default:
		return fmt.Errorf("kind %.50q is none of FabricConfig, FabricNode, Neighbor, Secret and Pod", kind.Kind)
	}
	return nil
}

// addStatus replaces the status of a FabricNode that the folder holds.
func (c *collector) addStatus(document []byte) error {
	var object v1alpha1.FabricNode
	if err := decode(document, &object); err != nil {
		return err
	}
	for i := range c.snapshot.Nodes {
		if n := &c.snapshot.Nodes[i]; n.Name == object.Name {
			n.Status = object.Status
		}
	}
	return nil
}

func decode(document []byte, into any) error {
	if err := yaml.UnmarshalStrict(document, into); err != nil {
		return fmt.Errorf("decode %T: %w", into, err)
	}
	return nil
}

// setDefaults does what the API server does by the CRD's defaults.
func setDefaults(spec *v1alpha1.FabricConfigSpec) {
	if len(spec.WirePools) == 0 {
		spec.WirePools = []v1alpha1.CIDR{"240.0.0.0/5"}
	}
	for _, d := range []struct {
		value        *int32
		defaultValue int32
	}{
		{&spec.Ports.Lane, 51847}, {&spec.Ports.Overlay, 4797}, {&spec.Ports.Agent, 9810}, {&spec.Ports.Metrics, 9813},
		{&spec.Routing.Table, 7077}, {&spec.Routing.RulePriority, 105},
	} {
		if *d.value == 0 {
			*d.value = d.defaultValue
		}
	}
}
