/** Types of the service's responses, from its OpenAPI document. */
import type { components } from "./schema.ts";

type Schemas = components["schemas"];

export type Job = Schemas["Job"];
export type Jobs = Schemas["Jobs"];
export type JobVersion = Schemas["JobVersion"];
export type JobVersions = Schemas["JobVersions"];
export type Run = Schemas["Run"];
export type Runs = Schemas["Runs"];
export type Dataset = Schemas["Dataset"];
export type Datasets = Schemas["Datasets"];
export type DatasetVersion = Schemas["DatasetVersion"];
export type DatasetVersions = Schemas["DatasetVersions"];
export type Namespaces = Schemas["Namespaces"];
export type LineageGraph = Schemas["Graph"];
export type SearchResult = Schemas["SearchResult"];
export type SearchResults = Schemas["SearchResults"];
export type EventCount = Schemas["EventCount"];
export type Count = Schemas["Count"];
export type RecordOfCatalog = Schemas["RecordOrigin"];
export type JobHierarchy = Schemas["JobHierarchy"];
export type RunHierarchy = Schemas["RunHierarchy"];
export type ListedRun = Schemas["ListedRun"];
export type DatasetQuality = Schemas["QualityOverTime"];
export type RunBatches = Schemas["RunBatches"];
export type Batch = Schemas["Batch"];
export type ReplayAnswer = Schemas["ReplayAnswer"];
export type MetricsNow = Schemas["MetricsNow"];
export type MetricsHistory = Schemas["MetricsHistory"];
export type MetricsPoint = Schemas["MetricsPoint"];
export type Alert = Schemas["Alert"];
/** `states` counts all alerts by state, including those that are not in the list. */
export type Alerts = Schemas["Alerts"] & { states?: Record<string, number> | null };
export type Incidents = Schemas["Incidents"];
