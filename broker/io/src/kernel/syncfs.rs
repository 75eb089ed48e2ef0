pub(crate) struct SyncAnchor;
impl SyncAnchor {
    #[allow(clippy::unused_async)]
    pub(crate) async fn syncfs(&self) -> crate::error::Result<()> {
        panic!("this backend follows in the next commit")
    }
}
