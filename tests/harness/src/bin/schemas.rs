//! Prints the schemas of the kinds that the embedded cluster serves.

use std::{error::Error, process::ExitCode};

use sts_plus_harness::{Assets, ControlPlane, Options, schemas::schemas};

#[tokio::main]
async fn main() -> ExitCode {
    match read().await {
        Ok(schemas) => {
            print!("{schemas}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("schemas: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn read() -> Result<String, Box<dyn Error>> {
    let assets = Assets::find()?;
    let options = Options { controllers: Vec::new(), ..Options::default() };
    let control_plane = ControlPlane::start(&assets, options).await?;
    Ok(schemas(&control_plane.admin()).await?)
}
