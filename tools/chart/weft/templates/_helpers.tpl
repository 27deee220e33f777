{{- define "weft.labels" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/part-of: weft
app.kubernetes.io/managed-by: weft
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
{{- end }}

{{- define "weft.pullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "weft.metricsPort" -}}
{{- dig "ports" "metrics" 9813 .Values.fabric | int -}}
{{- end }}
