//! The latest board, which watchers share.

use super::super::driver::{Driver, unix_ms};
use super::Board;
use accord_proto::threads::on_thread;
use accord_types::short_lock::ShortLock;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tonic::Status;

/// Time for which a board is reused: less than the time between two replies to a watcher.
const FRESH_FOR: Duration = Duration::from_millis(900);

/// Creates boards, one at a time.
pub(crate) struct Boards {
    driver: Arc<Driver>,
    turn: Arc<Semaphore>,
    last: ShortLock<Option<(Instant, Arc<Board>)>>,
}

impl Boards {
    pub(crate) fn new(driver: Arc<Driver>) -> Arc<Self> {
        Arc::new(Self { driver, turn: Arc::new(Semaphore::new(1)), last: ShortLock::default() })
    }

    /// Returns a board that is at most [`FRESH_FOR`] old.
    ///
    /// # Errors
    /// Returns `internal` if the system can't start a thread.
    pub(crate) async fn fresh(self: &Arc<Self>) -> Result<Arc<Board>, Status> {
        let turn = self.turn.clone().acquire_owned().await;
        let turn = turn.map_err(|_| Status::unavailable("the coordinator stops"))?;
        let last = self.last.lock().clone();
        if let Some((made, board)) = &last
            && made.elapsed() < FRESH_FOR
        {
            return Ok(board.clone());
        }
        let boards = self.clone();
        let observe = move || {
            let before = last.as_ref().map(|(_, board)| &**board);
            let board = Arc::new(Board::observe(&*boards.driver, (boards.driver.now(), unix_ms()), before));
            *boards.last.lock() = Some((Instant::now(), board.clone()));
            board
        };
        // The thread keeps the permit if the watcher disconnects meanwhile.
        on_thread("accord-board", turn, observe).await.map_err(|error| Status::internal(error.to_string()))
    }
}
