//! The server: answers requests of a client until it closes standard input.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, CreateTaskResult, CustomRequest,
    CustomResult, ErrorCode, ErrorData, GetTaskParams, GetTaskResult, Implementation, JsonObject,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig, UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::task_manager::{TaskExit, TaskManager, TaskOptions};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{RoleServer, ServerHandler, ServiceExt};
use serde_json::{Value, json};

use crate::answers::{Answers, failure, state};
use crate::error::ToolError;
use crate::folders::Folders;
use crate::jobs::{Job, Jobs};
use crate::resources::Resources;
use crate::tools::{ENTRIES, JOB, JOB_TOOL, check_names};

/// The longest line that is read, bytes.
const LONGEST_LINE: usize = 8 << 20;
/// Seconds that a call waits for its job.
const USUAL_WAIT: f64 = 30.0;
const MOST_WAIT: f64 = 600.0;
const POLL: u64 = 500;
const MOST_RESOURCES: usize = 200;

const INSTRUCTIONS: &str = "Mneme records GPU kernels of an application and replays them alone, so changed code can be \
    judged in seconds. The loop: record, list_kernels, show_kernel with code, evaluate with a changed source, check or \
    bisect if it is wrong, tune for launch shape and pipeline; then the user runs mneme apply. Only the verdict \
    'faster' is a win. If a call answers with state 'running', poll with the tool job. Files are resources; read them \
    in parts with ?offset=N&limit=N.";

pub struct Server {
    answers: Answers,
    jobs: Jobs,
    tasks: TaskManager,
}

/// Serves the client on standard input and output.
pub fn run(server: Server) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(async {
        let server = Arc::new(server);
        let transport =
            AsyncRwTransport::new_server(tokio::io::stdin(), tokio::io::stdout()).with_max_line_length(LONGEST_LINE);
        match server.clone().serve(transport).await {
            Ok(service) => drop(service.waiting().await),
            Err(error) => mneme_system::remark!("mneme-mcp: the client did not introduce itself: {error}"),
        }
        server.jobs.end().await;
    });
    // A thread may still wait for input.
    runtime.shutdown_background();
    Ok(())
}

impl Server {
    pub fn new(folders: Folders, limit: Duration) -> Self {
        let resources = Arc::new(Resources::new(folders.results()));
        let answers = Answers { folders: Arc::new(folders), resources };
        Self { answers, jobs: Jobs::new(limit), tasks: TaskManager::new() }
    }

    fn start(&self, name: &str, arguments: JsonObject) -> Result<Arc<Job>, ToolError> {
        let entry = ENTRIES.iter().find(|entry| entry.name == name).expect("the caller has looked");
        self.jobs.check()?;
        Ok(self.jobs.start(entry.name, entry.plan(arguments, &self.answers.folders)?))
    }

    /// Waits for a job. Returns whether the client has cancelled the request.
    async fn wait(&self, job: &Job, seconds: f64, context: &RequestContext<RoleServer>) -> bool {
        tokio::select! {
            () = job.ended() => false,
            () = tokio::time::sleep(Duration::from_secs_f64(seconds)) => false,
            () = context.ct.cancelled() => true,
        }
    }

    /// The tool that polls, cancels and lists jobs.
    async fn job(
        &self,
        mut arguments: JsonObject,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ToolError> {
        let wait = take_wait(&mut arguments)?;
        check_names(&JOB_TOOL.input_schema, &arguments)?;
        let text = |name: &str| arguments.get(name).and_then(Value::as_str);
        let action = text("action");
        if action == Some("list") {
            let about = |job: &Arc<Job>| json!({"job": job.id, "tool": job.tool, "state": state(job)});
            let jobs: Vec<Value> = self.jobs.all().iter().map(about).collect();
            return Ok(CallToolResult::structured(json!({"jobs": jobs})));
        }
        let id = text("job").ok_or_else(|| ToolError::Arguments("job is missing".to_owned()))?;
        let job = self.jobs.get(id)?;
        match action {
            // A client that gives up a poll still wants the job.
            Some("poll") => {
                self.wait(&job, wait.unwrap_or(USUAL_WAIT), context).await;
            }
            Some("cancel") => {
                job.cancel();
                job.ended().await;
                if state(&job) == "cancelled" {
                    return Ok(CallToolResult::structured(self.answers.about(&job)));
                }
            }
            _ => return Err(ToolError::Arguments("action is 'poll', 'cancel' or 'list'".to_owned())),
        }
        Ok(self.answers.answer(&job))
    }
}

/// Removes the argument that all tools have.
fn take_wait(arguments: &mut JsonObject) -> Result<Option<f64>, ToolError> {
    let Some(wait) = arguments.remove("wait").filter(|wait| !wait.is_null()) else { return Ok(None) };
    let wait = wait.as_f64().filter(|seconds| (0.0..=MOST_WAIT).contains(seconds));
    wait.map(Some).ok_or_else(|| ToolError::Arguments(format!("wait is 0 to {MOST_WAIT} seconds")))
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().enable_tasks().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("mneme-mcp", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = ENTRIES.iter().map(|entry| &entry.described).chain([&*JOB_TOOL]);
        Ok(ListToolsResult::with_all_items(tools.cloned().collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let mut arguments = request.arguments.unwrap_or_default();
        if request.name == JOB {
            let answer = self.job(arguments, &context).await;
            return Ok(answer.unwrap_or_else(|error| failure(&error)).into());
        }
        if !ENTRIES.iter().any(|entry| entry.name == request.name) {
            return Err(ErrorData::invalid_params("unknown tool; tools/list has all", None));
        }
        let started = take_wait(&mut arguments).and_then(|wait| Ok((wait, self.start(&request.name, arguments)?)));
        let (wait, job) = match started {
            Ok(started) => started,
            Err(error) => return Ok(failure(&error).into()),
        };
        let has_tasks = context.client_capabilities().is_some_and(|client| client.supports_tasks());
        if !has_tasks || wait.is_some() {
            if self.wait(&job, wait.unwrap_or(USUAL_WAIT), &context).await {
                job.cancel();
                job.ended().await;
            }
            return Ok(self.answers.answer(&job).into());
        }
        // Jobs end, so tasks need no limit of their own.
        let options = TaskOptions::new().with_ttl_ms(None).with_poll_interval_ms(POLL);
        let answers = self.answers.clone();
        let task = self.tasks.spawn(options, move |task| {
            Box::pin(async move {
                tokio::select! {
                    () = job.ended() => Ok(answers.answer(&job)),
                    () = task.cancelled() => {
                        job.cancel();
                        job.ended().await;
                        Err(TaskExit::Cancelled)
                    }
                }
            })
        });
        Ok(CreateTaskResult::new(task).into())
    }

    /// Answers a request that no type of the protocol fits: another method, or other parameters.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(match &*request.method {
            "tools/call" | "resources/read" | "tasks/get" | "tasks/cancel" | "tasks/update" => {
                ErrorData::invalid_params("the parameters are not those of the method", None)
            }
            _ => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None),
        })
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.tasks.get_task(&request.task_id).map(GetTaskResult::new)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        // Jobs ask for nothing.
        self.tasks.update_task(&request.task_id, [])
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&request.task_id)
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let folders = self.jobs.all().into_iter().rev().filter_map(|job| job.folder.clone());
        let resources = folders.flat_map(|folder| self.answers.resources.of(&folder)).take(MOST_RESOURCES).collect();
        Ok(ListResourcesResult::with_all_items(resources))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(vec![Resources::template()]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let read = self.answers.resources.read(&request.uri);
        read.map(Into::into).map_err(|error| ErrorData::resource_not_found(error.to_string(), None))
    }
}
